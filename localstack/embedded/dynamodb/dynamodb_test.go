package dynamodb_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/localstack/embedded/dynamodb"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// parentProcessEnv makes the test binary start the program, print its process id and
// wait to be killed.
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

func startProcess(t *testing.T, options dynamodb.Options) *dynamodb.Process {
	t.Helper()
	p, err := dynamodb.Start(t.Context(), options)
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
		t.Fatalf("got %v, want an error about the missing index", err)
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
		t.Fatalf("got %v, %v, want the item", got, err)
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
		t.Errorf("got %v, want advice to run %q", err, advice)
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
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho out of order\nexit 3\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	_, err := dynamodb.Start(t.Context(), dynamodb.Options{Binary: path, Log: &log})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Fatalf("got %v, want exit status 3", err)
	}
	if !strings.Contains(log.String(), "out of order") {
		t.Errorf("the log has no output of the program: %q", log.String())
	}
}

func TestStart_ReportsPortInUse(t *testing.T) {
	_, err := dynamodb.Start(t.Context(), dynamodb.Options{Port: testkit.OccupyPort(t)})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Fatalf("got %v, want address already in use", err)
	}
}

func TestProcess_EndsOnStopAndContextEnd(t *testing.T) {
	p := startProcess(t, dynamodb.Options{})
	for range 2 {
		if err := p.Stop(); err != nil {
			t.Fatalf("a clean stop returned %v", err)
		}
	}
	if testkit.Alive(p.PID()) {
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
		t.Log("only Linux ends a child with its parent")
		return
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentProcessEnv+"=1")
	line := testkit.StartAndReadLine(t, parent)
	pid, err := strconv.Atoi(line)
	if err != nil || !testkit.Alive(pid) {
		t.Fatalf("the parent printed %q", line)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the child ends after its parent", func() bool { return !testkit.Alive(pid) })
}
