package dynamodb_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// parentProcessEnv makes the test binary play a parent that starts the program, prints
// its process id and waits to be killed.
const parentProcessEnv = "LOCKSTEP_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentProcessEnv) == "" {
		os.Exit(m.Run())
	}
	p, err := dynamodb.Start(context.Background(), dynamodb.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(p.PID())
	select {}
}

func startProcess(t *testing.T, o dynamodb.Options) *dynamodb.Process {
	t.Helper()
	p, err := dynamodb.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Stop() })
	return p
}

func newClient(p *dynamodb.Process) *sdk.Client {
	return sdk.New(sdk.Options{
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		BaseEndpoint: aws.String(p.Endpoint()),
	})
}

// eventually polls a condition that another process makes true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	// A killed orphan may stay a zombie until the system's first process looks.
	_, state, _ := bytes.Cut(stat, []byte(") "))
	return !bytes.HasPrefix(state, []byte("Z"))
}

func TestCreateTables_IsIdempotentWithIndexesAndTTL(t *testing.T) {
	client := newClient(startProcess(t, dynamodb.Options{}))
	for range 2 {
		if err := dynamodb.CreateTables(t.Context(), client, "x-"); err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range topology.Tables {
		name := aws.String(dynamodb.TableName("x-", role))
		table, err := client.DescribeTable(t.Context(), &sdk.DescribeTableInput{TableName: name})
		if err != nil {
			t.Fatal(err)
		}
		if table.Table.BillingModeSummary == nil || table.Table.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
			t.Errorf("%s is not on demand: %+v", role, table.Table.BillingModeSummary)
		}
		var got []string
		for _, index := range table.Table.GlobalSecondaryIndexes {
			got = append(got, aws.ToString(index.IndexName))
			if index.Projection.ProjectionType != types.ProjectionTypeKeysOnly {
				t.Errorf("%s projects %s", aws.ToString(index.IndexName), index.Projection.ProjectionType)
			}
		}
		if want := map[string]int{topology.TableExecutions: 2, topology.TableJobs: 1, topology.TableRegistry: 1}[role]; len(got) != want {
			t.Errorf("%s has the indexes %v, want %d", role, got, want)
		}
		ttl, err := client.DescribeTimeToLive(t.Context(), &sdk.DescribeTimeToLiveInput{TableName: name})
		if err != nil {
			t.Fatal(err)
		}
		if got := aws.ToString(ttl.TimeToLiveDescription.AttributeName); got != topology.AttrTTL {
			t.Errorf("%s expires by %q", role, got)
		}
	}
}

func TestCreateTables_RejectsTableWithMissingIndex(t *testing.T) {
	client := newClient(startProcess(t, dynamodb.Options{}))
	_, err := client.CreateTable(t.Context(), &sdk.CreateTableInput{
		TableName:            aws.String("executions"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: "HASH"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	err = dynamodb.CreateTables(t.Context(), client, "")
	if err == nil || !strings.Contains(err.Error(), "index by-status is missing") {
		t.Fatalf("an old table was taken over: %v", err)
	}
}

func TestProcess_DataSurviveKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "by", "start")
	p := startProcess(t, dynamodb.Options{Dir: dir})
	client := newClient(p)
	if err := dynamodb.CreateTables(t.Context(), client, ""); err != nil {
		t.Fatal(err)
	}
	key := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "a"}, "sk": &types.AttributeValueMemberS{Value: "b"}}
	if _, err := client.PutItem(t.Context(), &sdk.PutItemInput{TableName: aws.String("jobs"), Item: key}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if p.Err() == nil {
		t.Error("a killed process has no error")
	}
	client = newClient(startProcess(t, dynamodb.Options{Dir: dir}))
	got, err := client.GetItem(t.Context(), &sdk.GetItemInput{TableName: aws.String("jobs"), Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil || len(got.Item) != 2 {
		t.Fatalf("the item is lost: %v %v", got, err)
	}
}

func TestStart_MissingProgramNamesTheFix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dynoxide")
	_, err := dynamodb.Start(t.Context(), dynamodb.Options{Binary: path})
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Fatalf("the error does not name the file: %v", err)
	}
	advice := "make build"
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		advice = "cargo install dynoxide-rs"
	}
	if !strings.Contains(err.Error(), advice) {
		t.Errorf("the error does not say %q: %v", advice, err)
	}
}

func TestLocate_SearchesParentDirectories(t *testing.T) {
	root := t.TempDir()
	deep := filepath.Join(root, "a", "b")
	path := filepath.Join(root, "bin", "dynoxide")
	for _, dir := range []string{deep, filepath.Dir(path)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	if got, err := dynamodb.Locate(); err != nil || got != path {
		t.Fatalf("found %q, %v; want %s", got, err, path)
	}
}

func TestStart_ReportsEarlyExit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dynoxide")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho no luck\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	_, err := dynamodb.Start(t.Context(), dynamodb.Options{Binary: path, Log: &log})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("want exit status 3, got %v", err)
	}
	if !strings.Contains(log.String(), "no luck") {
		t.Errorf("its output is lost: %q", log.String())
	}
}

func TestStart_ReportsPortInUse(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, err = dynamodb.Start(t.Context(), dynamodb.Options{Port: listener.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Fatalf("want address in use, got %v", err)
	}
}

func TestProcess_EndsOnStopAndContextEnd(t *testing.T) {
	p := startProcess(t, dynamodb.Options{})
	for range 2 {
		if err := p.Stop(); err != nil {
			t.Fatalf("a clean stop is no error: %v", err)
		}
	}
	if alive(p.PID()) {
		t.Error("still alive after Stop")
	}
	ctx, cancel := context.WithCancel(t.Context())
	p, err := dynamodb.Start(ctx, dynamodb.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Err() != nil {
		t.Errorf("a running process has the error %v", p.Err())
	}
	cancel()
	<-p.Done()
}

func TestProcess_DiesWithKilledParent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Log("only Linux ends a child with its parent: nothing to see here")
		return
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentProcessEnv+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !alive(pid) {
		t.Fatalf("the parent said %q", line)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed
	eventually(t, "the child ends after its parent", func() bool { return !alive(pid) })
}
