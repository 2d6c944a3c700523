// Command peers runs the tests of tests/conformance against other implementations of
// DynamoDB and SQS besides those that the product is developed with, and prints a table:
// a row for each behaviour in which one of them differs, and why. make conformance-peers
// installs them. With names of templates it compares the roles in them instead, with another evaluator of
// IAM's policies: make lint-template.
//
// A behaviour that ours has and nobody else is one to check in AWS's documentation, and so
// is one of which the test was written after ours.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// peer is an implementation. What runs it is made for a port of this machine.
type peer struct {
	name          string
	dynamoDB, sqs bool
	command       func(dir, port string) []string
}

var peers = []peer{
	{name: "ours", dynamoDB: true, sqs: true},
	{"moto 5.2.5", true, true, func(dir, port string) []string {
		return []string{filepath.Join(dir, "moto", "bin", "moto_server"), "--host", "127.0.0.1", "--port", port}
	}},
	{"dynalite 4.0.0", true, false, func(dir, port string) []string {
		return []string{"node", filepath.Join("tests", "conformance", "peers", "node_modules", "dynalite", "cli.js"),
			"--host", "127.0.0.1", "--port", port, "--createTableMs", "0", "--deleteTableMs", "0", "--updateTableMs", "0"}
	}},
	{"ElasticMQ 1.7.1", false, true, func(dir, port string) []string {
		return []string{"java", "-Drest-sqs.bind-hostname=127.0.0.1", "-Drest-sqs.bind-port=" + port, "-Dnode-address.port=" + port, "-Drest-stats.enabled=false",
			"-cp", filepath.Join(dir, "elasticmq", "*"), "org.elasticmq.server.Main"}
	}},
}

// results are the outcomes of tests by their name: "yes", or "no: " and why.
type results map[string]string

func main() {
	dir := flag.String("dir", filepath.Join("bin", "peers"), "directory in which the peers are installed")
	flag.Parse()
	var err error
	if templates := flag.Args(); len(templates) > 0 {
		err = compareRoles(templates)
	} else {
		err = compare(*dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func compare(dir string) error {
	var all []results
	for _, p := range peers {
		got, err := p.run(dir)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		all = append(all, got)
	}
	fmt.Print(table(all))
	for behaviour, ours := range all[0] {
		if ours != "yes" {
			return fmt.Errorf("ours fails: %s: %s", behaviour, ours)
		}
	}
	return nil
}

// run starts the peer, if it is a program of its own, and runs the tests of what it has.
func (p peer) run(dir string) (results, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	tests := []string{}
	environment := os.Environ()
	if p.dynamoDB {
		tests = append(tests, "TestDynamoDB_SupportsUsedFeatures")
	}
	if p.sqs {
		tests = append(tests, "TestSQS_SupportsUsedFeatures")
	}
	if p.command != nil {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		line := p.command(dir, port)
		program := exec.CommandContext(ctx, line[0], line[1:]...)
		log, err := os.Create(filepath.Join(dir, strings.Fields(p.name)[0]+".log"))
		if err != nil {
			return nil, err
		}
		defer func() { _ = log.Close() }()
		program.Stdout, program.Stderr = log, log
		if err := program.Start(); err != nil {
			return nil, err
		}
		ended := make(chan error, 1)
		go func() { ended <- program.Wait() }()
		defer func() { cancel(); <-ended }() // the end of the context kills it
		if err := waitForPort(ctx, port); err != nil {
			return nil, fmt.Errorf("%w: %s", err, log.Name())
		}
		address := "http://127.0.0.1:" + port
		if p.dynamoDB {
			environment = append(environment, "AWS_ENDPOINT_URL_DYNAMODB="+address)
		}
		if p.sqs {
			environment = append(environment, "AWS_ENDPOINT_URL_SQS="+address)
		}
	}
	// One test at a time, so that what is wrong with one is not seen in another.
	test := exec.CommandContext(ctx, "go", "test", "-json", "-count=1", "-parallel", "1", "-timeout", "2m", "-run", "^("+strings.Join(tests, "|")+")$", "./tests/conformance")
	test.Env, test.Stderr = environment, os.Stderr
	output, err := test.Output()
	got := parse(output)
	if len(got) == 0 { // a failed test is an answer, and no test is not
		return nil, fmt.Errorf("no test ran: %w\n%s", err, output)
	}
	return got, nil
}

func freePort() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = listener.Close() }()
	return strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), nil
}

func waitForPort(ctx context.Context, port string) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+port); err == nil {
			return connection.Close()
		}
	}
	return fmt.Errorf("it does not listen")
}

var (
	reasonRE = regexp.MustCompile(`_test\.go:\d+: (.*)`)
	noiseRE  = regexp.MustCompile(`operation error |https response error |StatusCode: |RequestID: [^,]*, `)
)

// parse reads what go test -json has written, of the tests of single behaviours.
func parse(output []byte) results {
	got, why := results{}, map[string]string{}
	for line := range strings.Lines(string(output)) {
		var event struct{ Action, Test, Output string }
		if json.Unmarshal([]byte(line), &event) != nil {
			continue
		}
		suite, behaviour, single := strings.Cut(event.Test, "/")
		if !single {
			continue
		}
		service := strings.TrimPrefix(strings.TrimSuffix(suite, "_SupportsUsedFeatures"), "Test")
		name := service + ": " + strings.ReplaceAll(behaviour, "_", " ")
		switch event.Action {
		case "output":
			if match := reasonRE.FindStringSubmatch(event.Output); match != nil && why[name] == "" {
				why[name] = strings.ReplaceAll(noiseRE.ReplaceAllString(match[1], ""), "|", "/")
			}
		case "pass":
			got[name] = "yes"
		case "fail":
			got[name] = "no: " + why[name]
		}
	}
	return got
}

// table writes a row for each behaviour that one of them has not. A peer without the
// service has an empty cell.
func table(all []results) string {
	var names, heads []string
	for _, r := range all {
		for name := range r {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for i, p := range peers {
		passed, of := 0, len(all[i])
		for _, outcome := range all[i] {
			if outcome == "yes" {
				passed++
			}
		}
		heads = append(heads, fmt.Sprintf("%s: %d of %d", p.name, passed, of))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "| behaviour | %s |\n|%s\n", strings.Join(heads, " | "), strings.Repeat(" --- |", len(peers)+1))
	for _, name := range names {
		var cells []string
		for _, r := range all {
			cells = append(cells, r[name])
		}
		if slices.ContainsFunc(cells, func(c string) bool { return strings.HasPrefix(c, "no") }) {
			fmt.Fprintf(&b, "| %s | %s |\n", name, strings.Join(cells, " | "))
		}
	}
	return b.String()
}
