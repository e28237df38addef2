// go_etcd PORT - drives clientv3/concurrency's Mutex for the benchmark: jobs on stdin, figures on stdout (bench/peer.h).
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"go.etcd.io/etcd/version"
)

const ttl = 10 // seconds

var ctx = context.Background()

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go_etcd:", err)
		os.Exit(1)
	}
}

func connect() (*clientv3.Client, *concurrency.Session) {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"127.0.0.1:" + os.Args[1]}})
	must(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	must(err)
	return client, session
}

// pair gives microseconds for each of n.
func pair(session *concurrency.Session, n int) float64 {
	begin := time.Now()
	for i := 0; i < n; i++ {
		mutex := concurrency.NewMutex(session, "peer:pair")
		must(mutex.Lock(ctx))
		must(mutex.Unlock(ctx))
	}
	return float64(time.Since(begin).Nanoseconds()) / float64(n) / 1000
}

type turns struct {
	sync.Mutex // for the race that there is only if the lock fails
	last       int
	changes    int
	stop       bool
}

func (t *turns) turn(me int) {
	t.Lock()
	defer t.Unlock()
	if t.last != me {
		t.changes++
	}
	t.last = me
}

func (t *turns) ending() bool {
	t.Lock()
	defer t.Unlock()
	return t.stop
}

func waiter(t *turns, me int, session *concurrency.Session, hold, pause time.Duration) {
	for !t.ending() {
		mutex := concurrency.NewMutex(session, "peer:turns")
		must(mutex.Lock(ctx))
		t.turn(me)
		time.Sleep(hold)
		must(mutex.Unlock(ctx))
		time.Sleep(pause)
	}
}

// takeTurns gives owner changes a second; each waiter has a connection and a session of its own.
func takeTurns(waiters int, seconds float64, hold, pause time.Duration) float64 {
	t := &turns{last: -1}
	clients := make([]*clientv3.Client, waiters)
	sessions := make([]*concurrency.Session, waiters)
	var all sync.WaitGroup

	for me := range clients {
		clients[me], sessions[me] = connect()
	}
	begin := time.Now()
	for me := range clients {
		all.Add(1)
		go func(me int) {
			waiter(t, me, sessions[me], hold, pause)
			all.Done()
		}(me)
	}
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	t.Lock()
	rate := float64(t.changes) / time.Since(begin).Seconds()
	t.stop = true
	t.Unlock()
	all.Wait()
	for me := range clients {
		sessions[me].Close()
		clients[me].Close()
	}
	return rate
}

func main() {
	if os.Args[1] == "--version" {
		fmt.Println("go clientv3 " + version.Version)
		return
	}
	_, session := connect()
	jobs := bufio.NewScanner(os.Stdin)
	for jobs.Scan() {
		var job string
		var count int
		var seconds float64

		fmt.Sscan(jobs.Text(), &job, &count, &seconds)
		switch job {
		case "pair":
			fmt.Println(pair(session, count))
		case "turns":
			fmt.Println(takeTurns(count, seconds, 0, 0))
		case "polite":
			fmt.Println(takeTurns(count, seconds, time.Millisecond, 5*time.Millisecond))
		}
	}
}
