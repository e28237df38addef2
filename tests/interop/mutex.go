// mutex ENDPOINTS TTL_SECONDS PREFIX - one lock of etcd's own package concurrency. Reads orders, one line each, and answers
// each with one line:
//
//	take NAME | wait NAME | release  ->  yes | no | error TEXT
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
)

var mutex *concurrency.Mutex

func obey(session *concurrency.Session, prefix string, words []string) (bool, error) {
	forever := context.Background()
	if words[0] == "release" {
		return true, mutex.Unlock(forever)
	}
	mutex = concurrency.NewMutex(session, prefix+words[1])
	if words[0] == "wait" {
		return true, mutex.Lock(forever)
	}
	soon, cancel := context.WithTimeout(forever, 500*time.Millisecond)
	defer cancel()
	err := mutex.Lock(soon)
	if err == context.DeadlineExceeded {
		return false, nil
	}
	return err == nil, err
}

func main() {
	config := clientv3.Config{Endpoints: strings.Split(os.Args[1], ","), DialTimeout: 20 * time.Second}
	client, err := clientv3.New(config)
	if err != nil {
		panic(err)
	}
	ttl, _ := strconv.Atoi(os.Args[2])
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	if err != nil {
		panic(err)
	}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		done, err := obey(session, os.Args[3], strings.Split(orders.Text(), " "))
		if err != nil {
			fmt.Println("error", err)
		} else if done {
			fmt.Println("yes")
		} else {
			fmt.Println("no")
		}
	}
	session.Close()
}
