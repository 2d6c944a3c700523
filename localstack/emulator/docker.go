package emulator

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

const (
	image = "localstack/localstack:" + Version

	// dockerHost is this machine's host name in containers.
	dockerHost = "host.docker.internal"
)

// container is LocalStack in Docker. It starts a container for each execution environment of a
// function, through Docker's socket.
type container struct{ id string }

func dockerAvailable(ctx context.Context) bool {
	return exec.CommandContext(ctx, "docker", "info", "--format", "{{.ServerVersion}}").Run() == nil
}

func (e *LocalStack) startContainer(ctx context.Context) error {
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", dockerArguments(e.port)...)
	cmd.Stderr = &stderr
	id, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("docker run %s: %w\n%s", image, err, stderr.String())
	}
	e.docker.id = strings.TrimSpace(string(id))
	return nil
}

// dockerArguments returns the arguments of docker that run LocalStack in the background on a port
// of this machine.
func dockerArguments(port int) []string {
	settings := commonSettings()
	settings["LOCALSTACK_HOST"] = "localhost.localstack.cloud:4566"
	settings["LAMBDA_DOCKER_FLAGS"] = "--add-host=" + dockerHost + ":host-gateway"
	args := []string{
		"run", "--detach", "--rm", "--publish", "127.0.0.1:" + strconv.Itoa(port) + ":4566",
		"--volume", "/var/run/docker.sock:/var/run/docker.sock", "--add-host", dockerHost + ":host-gateway",
	}
	var env []string
	for key, value := range settings {
		env = append(env, key+"="+value)
	}
	slices.Sort(env)
	for _, line := range env {
		args = append(args, "--env", line)
	}
	return append(args, image)
}

// remove stops the container; LocalStack removes those of its functions.
func (c *container) remove() error {
	if output, err := exec.Command("docker", "stop", "--time", "10", c.id).CombinedOutput(); err != nil {
		return fmt.Errorf("docker stop: %w\n%s", err, output)
	}
	c.id = ""
	return nil
}
