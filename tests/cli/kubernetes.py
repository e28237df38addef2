#!/usr/bin/env python3
"""kubernetes.py FILE DIRECTORY - FILE has an object of Kubernetes in YAML, or a list env. Writes DIRECTORY/NAME.sh for each of its
containers, with its environment and command as a kubelet would start it: fields come from variables of ours, such as status.podIP
from STATUS_PODIP. Likewise NAME.live.sh for the liveness probe. Fails if the object is not what the API would take."""
import os
import re
import shlex
import sys

import yaml


def require(condition, what):
    if not condition:
        sys.exit("kubernetes.py: " + what)


def pod_of(thing):
    """The Pod's specification in a Deployment or a CronJob."""
    require(thing.get("metadata", {}).get("name"), "an object needs a name")
    kind = (thing.get("apiVersion"), thing.get("kind"))
    spec = thing["spec"]
    if kind == ("apps/v1", "Deployment"):
        require(spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"], "the selector finds no Pod")
        return spec["template"]["spec"]
    require(kind == ("batch/v1", "CronJob"), "unknown kind %s %s" % kind)
    require(re.fullmatch(r"(\S+ ){4}\S+", spec["schedule"]), "the schedule has five fields")
    require(spec["concurrencyPolicy"] in ("Allow", "Forbid", "Replace"), "an unknown concurrencyPolicy")
    pod = spec["jobTemplate"]["spec"]["template"]["spec"]
    require(pod["restartPolicy"] in ("Never", "OnFailure"), "a Job needs a restartPolicy")
    return pod


def environment(entries):
    result = {}
    for entry in entries:
        if "value" in entry:
            result[entry["name"]] = entry["value"]
            continue
        source = entry["valueFrom"]
        where = source.get("fieldRef", {}).get("fieldPath") or "secret." + source["secretKeyRef"]["key"]
        result[entry["name"]] = os.environ[where.replace(".", "_").upper()]
    return result


def script(variables, command):
    words = [re.sub(r"\$\((\w+)\)", lambda found: variables[found.group(1)], word) for word in command]
    require(all(isinstance(word, str) for word in command), "words of a command are strings")
    return "".join("export %s=%s\n" % (name, shlex.quote(value)) for name, value in variables.items()) + \
        "exec " + " ".join(map(shlex.quote, words)) + "\n"


def write(name, text):
    with open(os.path.join(sys.argv[2], name), "w", encoding="utf-8") as file:
        file.write(text)


with open(sys.argv[1], encoding="utf-8") as file_:
    found_ = yaml.safe_load(file_)
if set(found_) == {"env"}:
    write("env.sh", "".join("export %s=%s\n" % (name, shlex.quote(value)) for name, value in environment(found_["env"]).items()))
else:
    pod_ = pod_of(found_)
    volumes = {volume["name"] for volume in pod_.get("volumes", [])}
    for container in pod_["containers"]:
        require(container["name"] and container["image"], "a container needs a name and an image")
        for mount in container.get("volumeMounts", []):
            require(mount["name"] in volumes, "there is no volume " + mount["name"])
        variables_ = environment(container.get("env", []))
        write(container["name"] + ".sh", script(variables_, container["command"]))
        if "livenessProbe" in container:
            write(container["name"] + ".live.sh", script(variables_, container["livenessProbe"]["exec"]["command"]))
