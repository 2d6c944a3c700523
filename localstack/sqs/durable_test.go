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

	"github.com/lockstep-run/lockstep/localstack/sqs"
)

// childEnv makes the test binary send messages into a directory and print each
// one that was acknowledged, until it is killed.
const childEnv = "LOCKSTEP_TEST_SENDER"

func TestMain(m *testing.M) {
	dir := os.Getenv(childEnv)
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
		w := &status{http.Header{}, 0}
		s.ServeHTTP(w, r)
		if w.code != http.StatusOK {
			fmt.Println("refused")
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

type status struct {
	header http.Header
	code   int
}

func (s *status) Header() http.Header         { return s.header }
func (s *status) WriteHeader(code int)        { s.code = code }
func (s *status) Write(b []byte) (int, error) { return len(b), nil }

func TestAcknowledgedMessagesSurviveKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"="+dir)
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
				t.Fatalf("the sender said %q", lines.Text())
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
				}
			}
			for i := range acknowledged {
				if !found[fmt.Sprint(i)] {
					t.Fatalf("round %d: message %d of %d is lost", round, i, acknowledged)
				}
			}
			ask(t, s, "PurgeQueue", in{"QueueUrl": "q"})
		}()
	}
}

func TestARestartKeepsEverythingButReceives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := sqs.Options{Dir: t.TempDir()}
		s := server(t, o)
		dlq := create(t, s, "dlq", nil)
		u := create(t, s, "q", map[string]string{"VisibilityTimeout": "5", "RedrivePolicy": redrive(t, s, dlq, "1")})
		f := create(t, s, "q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"})
		gone := create(t, s, "gone", nil)
		send(t, s, gone, "x")
		ask(t, s, "DeleteQueue", in{"QueueUrl": gone})
		ask(t, s, "TagQueue", in{"QueueUrl": u, "Tags": in{"k": "v"}})
		send(t, s, u, "dead")
		receive(t, s, u, 0)
		time.Sleep(5 * time.Second) // now in the dead-letter queue
		send(t, s, u, "deleted")
		remove(t, s, u, receive(t, s, u, 0)[0])
		ask(t, s, "SendMessage", in{"QueueUrl": u, "MessageBody": "in flight", "MessageAttributes": in{"n": in{"DataType": "Number", "StringValue": "1"}}})
		held := receive(t, s, u, 0)[0]
		ask(t, s, "SendMessage", in{"QueueUrl": u, "MessageBody": "delayed", "DelaySeconds": 50})
		first := ask(t, s, "SendMessage", in{"QueueUrl": f, "MessageBody": "fifo", "MessageGroupId": "g"})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = server(t, o)
		if tags := ask(t, s, "ListQueueTags", in{"QueueUrl": u}).Tags; tags["k"] != "v" {
			t.Errorf("tags %v", tags)
		}
		if o := ask(t, s, "ListQueues", in{}); len(o.QueueUrls) != 3 {
			t.Errorf("queues %v", o.QueueUrls)
		}
		if got := receive(t, s, dlq, 0); bodies(got) != "dead" || got[0].Attributes["DeadLetterQueueSourceArn"] != attribute(t, s, u, "QueueArn") {
			t.Errorf("dead letters %v", got)
		}
		remove(t, s, u, held) // a receipt of the earlier process is void
		got := receive(t, s, u, 0)
		if bodies(got) != "in flight" || got[0].MessageId != held.MessageId || len(got[0].MessageAttributes) != 1 {
			t.Fatalf("got %+v", got)
		}
		remove(t, s, u, got[0])
		begin := time.Now()
		for range 3 { // 20 seconds a poll
			got = receive(t, s, u, 20)
		}
		if bodies(got) != "delayed" || time.Since(begin) != 50*time.Second {
			t.Errorf("%q after %v, want the rest of the delay", bodies(got), time.Since(begin))
		}
		if time.Sleep(6 * time.Second); attribute(t, s, dlq, "ApproximateNumberOfMessages") != "2" {
			t.Error("the redrive policy is forgotten")
		}
		again := ask(t, s, "SendMessage", in{"QueueUrl": f, "MessageBody": "fifo", "MessageGroupId": "g"})
		next := ask(t, s, "SendMessage", in{"QueueUrl": f, "MessageBody": "next", "MessageGroupId": "g"})
		if again.MessageId != first.MessageId || next.SequenceNumber <= first.SequenceNumber {
			t.Errorf("first %+v, repeated %+v, next %+v", first, again, next)
		}
	})
}

func TestTheJournalDoesNotGrowForever(t *testing.T) {
	o := sqs.Options{Dir: t.TempDir()}
	s := server(t, o)
	u := create(t, s, "q", nil)
	kept := send(t, s, u, "kept")
	receive(t, s, u, 0)
	for range 700 {
		entries := []in{}
		for i := range 9 {
			entries = append(entries, in{"Id": fmt.Sprint(i), "MessageBody": "x"})
		}
		ask(t, s, "SendMessageBatch", in{"QueueUrl": u, "Entries": entries})
		for i, m := range receive(t, s, u, 0) {
			entries[i] = in{"Id": fmt.Sprint(i), "ReceiptHandle": m.ReceiptHandle}
		}
		ask(t, s, "DeleteMessageBatch", in{"QueueUrl": u, "Entries": entries})
	}
	file, err := os.Stat(filepath.Join(o.Dir, "messages.log"))
	if err != nil || file.Size() > 1<<20 {
		t.Fatalf("7,000 records later the journal has %d bytes, %v", file.Size(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, server(t, o), u, 0); len(got) != 1 || got[0].MessageId != kept.MessageId {
		t.Fatalf("got %v", got)
	}
}

// A send that cannot be kept is refused, leaves nothing behind, and is no
// repetition when it is tried again. The limit on the size of files stands for a
// full disk.
func TestASendThatCannotBeKeptIsRefused(t *testing.T) {
	o := sqs.Options{Dir: t.TempDir()}
	s := server(t, o)
	u := create(t, s, "q.fifo", map[string]string{"FifoQueue": "true"})
	message := in{"QueueUrl": u, "MessageBody": strings.Repeat("x", 2000), "MessageGroupId": "g", "MessageDeduplicationId": "d"}
	file, err := os.Stat(filepath.Join(o.Dir, "messages.log"))
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
	small.Cur = uint64(file.Size()) + 100 // half of the record fits
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &small); err != nil {
		t.Fatal(err)
	}
	refused := try(t.Context(), s, "SendMessage", message)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Fatal(err)
	}
	if refused.Status != http.StatusInternalServerError {
		t.Fatalf("got %+v", refused)
	}
	if n := attribute(t, s, u, "ApproximateNumberOfMessages"); n != "0" {
		t.Errorf("%s messages after a refused send", n)
	}
	ask(t, s, "SendMessage", message)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := receive(t, server(t, o), u, 0); len(got) != 1 {
		t.Fatalf("%d messages, want the second send's", len(got))
	}
}
