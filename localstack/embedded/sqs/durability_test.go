package sqs_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
)

// senderDirEnv makes the test binary send messages to a server on that directory and
// print the number of each acknowledged message, until it is killed.
const senderDirEnv = "LOCKSTEP_TEST_SENDER"

func TestMain(m *testing.M) {
	dir := os.Getenv(senderDirEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := sqs.New(sqs.Options{Dir: dir, AutoCreate: func(string) (map[string]string, bool) { return nil, true }})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		body := fmt.Sprintf("%d %s", i, strings.Repeat("x", i%5000))
		r, _ := http.NewRequest(http.MethodPost, "/", strings.NewReader(`{"QueueUrl":"q","MessageBody":"`+body+`"}`))
		r.Header.Set("X-Amz-Target", "AmazonSQS.SendMessage")
		w := &statusRecorder{http.Header{}, 0}
		s.ServeHTTP(w, r)
		if w.code != http.StatusOK {
			fmt.Println("send failed")
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

type statusRecorder struct {
	header http.Header
	code   int
}

func (s *statusRecorder) Header() http.Header         { return s.header }
func (s *statusRecorder) WriteHeader(code int)        { s.code = code }
func (s *statusRecorder) Write(b []byte) (int, error) { return len(b), nil }

func TestServer_AcknowledgedMessagesSurviveKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), senderDirEnv+"="+dir)
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines, acknowledged := bufio.NewScanner(out), 0
		for lines.Scan() {
			if lines.Text() != fmt.Sprint(acknowledged) {
				t.Fatalf("the sender printed %q", lines.Text())
			}
			acknowledged++
			if acknowledged == 200+round {
				_ = child.Process.Kill()
			}
		}
		_ = child.Wait() // killed
		func() {
			s, err := sqs.New(sqs.Options{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			found := map[string]bool{}
			for got := receive(t, s, "q", 0); len(got) > 0; got = receive(t, s, "q", 0) {
				for _, m := range got {
					number, _, _ := strings.Cut(m.Body, " ")
					found[number] = true
					remove(t, s, "q", m)
				}
			}
			for i := range acknowledged {
				if !found[fmt.Sprint(i)] {
					t.Fatalf("round %d: message %d of %d is lost", round, i, acknowledged)
				}
			}
		}()
	}
}

func TestServer_RestartKeepsAllButReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := sqs.Options{Dir: t.TempDir()}
		s := newServer(t, options)
		dlq := createQueue(t, s, "dlq", nil)
		u := createQueue(t, s, "q", map[string]string{"VisibilityTimeout": "5", "RedrivePolicy": redrivePolicy(t, s, dlq, "1")})
		gone := createQueue(t, s, "gone", nil)
		send(t, s, gone, "x")
		mustCall(t, s, "DeleteQueue", request{"QueueUrl": gone})
		send(t, s, u, "dead")
		receive(t, s, u, 0)
		time.Sleep(5 * time.Second) // now in the dead-letter queue
		send(t, s, u, "deleted")
		remove(t, s, u, receive(t, s, u, 0)[0])
		mustCall(t, s, "SendMessage", request{"QueueUrl": u, "MessageBody": "in flight", "MessageAttributes": request{"n": request{"DataType": "Number", "StringValue": "1"}}})
		held := receive(t, s, u, 0)[0]
		mustCall(t, s, "SendMessage", request{"QueueUrl": u, "MessageBody": "delayed", "DelaySeconds": 50})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = newServer(t, options)
		if reply := call(t.Context(), s, "GetQueueUrl", request{"QueueName": "gone"}); reply.Status == http.StatusOK {
			t.Error("a deleted queue is back")
		}
		if got := receive(t, s, dlq, 0); bodies(got) != "dead" || got[0].Attributes["DeadLetterQueueSourceArn"] != queueAttribute(t, s, u, "QueueArn") {
			t.Errorf("dead letters %v", got)
		}
		remove(t, s, u, held) // a receipt handle of the earlier process is void
		got := receive(t, s, u, 0)
		if bodies(got) != "in flight" || got[0].MessageId != held.MessageId || len(got[0].MessageAttributes) != 1 {
			t.Fatalf("got %+v", got)
		}
		remove(t, s, u, got[0])
		start := time.Now()
		for range 3 { // 20 seconds each
			got = receive(t, s, u, 20)
		}
		if bodies(got) != "delayed" || time.Since(start) != 50*time.Second {
			t.Errorf("%q after %v, want the rest of the delay", bodies(got), time.Since(start))
		}
		if time.Sleep(6 * time.Second); queueAttribute(t, s, dlq, "ApproximateNumberOfMessages") != "2" {
			t.Error("the redrive policy is lost")
		}
	})
}

func TestServer_CompactsWAL(t *testing.T) {
	options := sqs.Options{Dir: t.TempDir()}
	s := newServer(t, options)
	u := createQueue(t, s, "q", nil)
	kept := send(t, s, u, "kept")
	receive(t, s, u, 0)
	for range 700 {
		entries := []request{}
		for i := range 9 {
			entries = append(entries, request{"Id": fmt.Sprint(i), "MessageBody": "x"})
		}
		mustCall(t, s, "SendMessageBatch", request{"QueueUrl": u, "Entries": entries})
		for i, m := range receive(t, s, u, 0) {
			entries[i] = request{"Id": fmt.Sprint(i), "ReceiptHandle": m.ReceiptHandle}
		}
		mustCall(t, s, "DeleteMessageBatch", request{"QueueUrl": u, "Entries": entries})
	}
	file, err := os.Stat(filepath.Join(options.Dir, "messages.log"))
	if err != nil || file.Size() > 1<<20 {
		t.Fatalf("after 7,000 records the log has %d bytes, %v", file.Size(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, newServer(t, options), u, 0); len(got) != 1 || got[0].MessageId != kept.MessageId {
		t.Fatalf("got %v", got)
	}
}

// withFullDisk calls do while the log can grow by only so many bytes. The limit on the size of
// files stands for a full disk.
func withFullDisk(t *testing.T, dir string, left uint64, do func()) {
	t.Helper()
	file, err := os.Stat(filepath.Join(dir, "messages.log"))
	if err != nil {
		t.Fatal(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	small := old
	small.Cur = uint64(file.Size()) + left
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	do()
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
}

// A change of attributes that cannot be written fails and changes nothing.
func TestSetQueueAttributes_ChangesNothingWhenWALWriteFails(t *testing.T) {
	options := sqs.Options{Dir: t.TempDir()}
	s := newServer(t, options)
	u := createQueue(t, s, "q", map[string]string{"VisibilityTimeout": "30"})
	change := request{"QueueUrl": u, "Attributes": request{"VisibilityTimeout": "5"}}
	var failed reply
	withFullDisk(t, options.Dir, 10, func() { failed = call(t.Context(), s, "SetQueueAttributes", change) })
	if failed.Status != http.StatusInternalServerError {
		t.Fatalf("got %+v", failed)
	}
	if got := queueAttribute(t, s, u, "VisibilityTimeout"); got != "30" {
		t.Errorf("the timeout is %s after a failed change", got)
	}
	mustCall(t, s, "SetQueueAttributes", change)
	if got := queueAttribute(t, s, u, "VisibilityTimeout"); got != "5" {
		t.Errorf("the timeout is %s after the change", got)
	}
}

// A send that cannot be written fails, stores nothing, and can be repeated.
func TestSendMessage_RejectedWhenWALWriteFails(t *testing.T) {
	options := sqs.Options{Dir: t.TempDir()}
	s := newServer(t, options)
	u := createQueue(t, s, "q", nil)
	message := request{"QueueUrl": u, "MessageBody": strings.Repeat("x", 2000)}
	var failed reply
	withFullDisk(t, options.Dir, 100, func() { failed = call(t.Context(), s, "SendMessage", message) }) // half of the record fits
	if failed.Status != http.StatusInternalServerError {
		t.Fatalf("got %+v", failed)
	}
	if n := queueAttribute(t, s, u, "ApproximateNumberOfMessages"); n != "0" {
		t.Errorf("%s messages after a failed send", n)
	}
	mustCall(t, s, "SendMessage", message)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, newServer(t, options), u, 0); len(got) != 1 {
		t.Fatalf("%d messages, want that of the second send", len(got))
	}
}
