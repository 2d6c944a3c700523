package sqs_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
)

// These tests run on a virtual clock, so times are exact and cost nothing.

func TestReceiveMessage_LongPollTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", nil)
		begin := time.Now()
		if got := receive(t, s, u, 7); len(got) != 0 || time.Since(begin) != 7*time.Second {
			t.Fatalf("%v after %v", got, time.Since(begin))
		}
	})
}

func TestReceiveMessage_LongPollWakesOnSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", nil)
		begin := time.Now()
		time.AfterFunc(3*time.Second, func() { call(t.Context(), s, "SendMessage", request{"QueueUrl": u, "MessageBody": "x"}) })
		if got := receive(t, s, u, 20); len(got) != 1 || time.Since(begin) != 3*time.Second {
			t.Fatalf("%v after %v", got, time.Since(begin))
		}
	})
}

func TestReceiveMessage_PollsShareMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", nil)
		got := make(chan string, 5)
		for range 5 {
			go func() {
				o := call(t.Context(), s, "ReceiveMessage", request{"QueueUrl": u, "WaitTimeSeconds": 20})
				got <- bodies(o.Messages)
			}()
		}
		synctest.Wait()
		want := []string{"a", "b", "c", "d", "e"}
		for _, body := range want {
			send(t, s, u, body)
		}
		var all []string
		for range want {
			all = append(all, <-got)
		}
		slices.Sort(all)
		if !slices.Equal(all, want) {
			t.Fatalf("the polls got %q", all)
		}
	})
}

// A delay and a visibility time-out both end while somebody is polling, to the
// millisecond; neither needs a request to be noticed.
func TestServer_DelayAndVisibilityAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", map[string]string{"VisibilityTimeout": "5"})
		begin := time.Now()
		mustCall(t, s, "SendMessage", request{"QueueUrl": u, "MessageBody": "x", "DelaySeconds": 2})
		if n := queueAttribute(t, s, u, "ApproximateNumberOfMessagesDelayed"); n != "1" {
			t.Errorf("%s delayed", n)
		}
		first := receive(t, s, u, 20)
		if len(first) != 1 || time.Since(begin) != 2*time.Second {
			t.Fatalf("delay: %v after %v", first, time.Since(begin))
		}
		again := receive(t, s, u, 20)
		if len(again) != 1 || time.Since(begin) != 7*time.Second {
			t.Fatalf("visibility: %v after %v", again, time.Since(begin))
		}
		if n := again[0].Attributes["ApproximateReceiveCount"]; n != "2" {
			t.Errorf("received %s times", n)
		}
		mustCall(t, s, "ChangeMessageVisibility", request{"QueueUrl": u, "ReceiptHandle": again[0].ReceiptHandle, "VisibilityTimeout": 11})
		if got := receive(t, s, u, 20); len(got) != 1 || time.Since(begin) != 18*time.Second {
			t.Fatalf("extended: %v after %v", got, time.Since(begin))
		}
	})
}

func TestDeleteMessage_IgnoresOldReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", map[string]string{"VisibilityTimeout": "1"})
		send(t, s, u, "x")
		old := receive(t, s, u, 0)[0]
		time.Sleep(time.Second)
		latest := receive(t, s, u, 0)[0]
		remove(t, s, u, old)
		o := call(t.Context(), s, "ChangeMessageVisibility", request{"QueueUrl": u, "ReceiptHandle": old.ReceiptHandle, "VisibilityTimeout": 0})
		if o.Status != http.StatusBadRequest {
			t.Errorf("an old receipt changed the visibility: %+v", o)
		}
		time.Sleep(time.Second)
		if n := queueAttribute(t, s, u, "ApproximateNumberOfMessages"); n != "1" {
			t.Fatalf("%s messages are left, want 1", n)
		}
		// Visible again, but not received again: the latest receipt still counts.
		remove(t, s, u, latest)
		if got := receive(t, s, u, 0); len(got) != 0 {
			t.Fatalf("%v after the delete", got)
		}
	})
}

// A client that goes away in the middle of a poll must not take a message along.
func TestReceiveMessage_GoneClientTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", nil)
		for _, late := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan reply)
			go func() { done <- call(ctx, s, "ReceiveMessage", request{"QueueUrl": u, "WaitTimeSeconds": 20}) }()
			synctest.Wait()
			if late { // the delivery and the end of the client meet
				go send(t, s, u, "x")
			}
			cancel()
			<-done
			synctest.Wait()
			if !late {
				send(t, s, u, "x")
			}
			got := receive(t, s, u, 0)
			if len(got) != 1 || got[0].Attributes["ApproximateReceiveCount"] != "1" {
				t.Fatalf("late %v: %+v", late, got)
			}
			remove(t, s, u, got[0])
		}
	})
}

func TestServer_MovesToDLQAfterLastVisibilityTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		dlq := createQueue(t, s, "q-dlq", nil)
		u := createQueue(t, s, "q", map[string]string{"VisibilityTimeout": "3", "RedrivePolicy": redrivePolicy(t, s, dlq, `"2"`)})
		begin := time.Now()
		sent := send(t, s, u, "poison")
		for range 2 {
			if got := receive(t, s, u, 20); len(got) != 1 {
				t.Fatalf("%d messages before the last try", len(got))
			}
		}
		deadLetters := receive(t, s, dlq, 20) // nobody touches the source queue
		if len(deadLetters) != 1 || time.Since(begin) != 6*time.Second {
			t.Fatalf("%v after %v", deadLetters, time.Since(begin))
		}
		if deadLetters[0].MessageId != sent.MessageId || deadLetters[0].Attributes["DeadLetterQueueSourceArn"] != queueAttribute(t, s, u, "QueueArn") {
			t.Errorf("not the same message: %+v", deadLetters[0])
		}
		if o := mustCall(t, s, "ListDeadLetterSourceQueues", request{"QueueUrl": dlq}); !slices.Equal(o.QueueUrls, []string{u}) {
			t.Errorf("sources %v", o.QueueUrls)
		}
		mustCall(t, s, "ChangeMessageVisibility", request{"QueueUrl": dlq, "ReceiptHandle": deadLetters[0].ReceiptHandle, "VisibilityTimeout": 0})
		arn := queueAttribute(t, s, dlq, "QueueArn")
		mustCall(t, s, "StartMessageMoveTask", request{"SourceArn": arn})
		back := receive(t, s, u, 0)
		if len(back) != 1 || back[0].MessageId == sent.MessageId || back[0].Attributes["ApproximateReceiveCount"] != "1" {
			t.Fatalf("a moved message is a new one: %+v", back)
		}
		if o := mustCall(t, s, "ListMessageMoveTasks", request{"SourceArn": arn}); len(o.Results) != 1 || o.Results[0]["ApproximateNumberOfMessagesMoved"] != 1.0 {
			t.Errorf("tasks %v", o.Results)
		}
	})
}

func TestServer_DropsMessagesPastRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", map[string]string{"MessageRetentionPeriod": "60", "VisibilityTimeout": "100"})
		send(t, s, u, "held")
		receive(t, s, u, 0)
		send(t, s, u, "visible")
		time.Sleep(59 * time.Second)
		send(t, s, u, "young")
		time.Sleep(time.Second)
		if got := bodies(receive(t, s, u, 0)); got != "young" {
			t.Fatalf("got %q", got)
		}
		time.Sleep(time.Minute)
		if got := receive(t, s, u, 0); len(got) != 0 {
			t.Fatalf("got %v", got)
		}
	})
}

func TestServer_FIFOGroupsAndDeduplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "10"})
		put := func(group, body string) reply {
			return mustCall(t, s, "SendMessage", request{"QueueUrl": u, "MessageBody": body, "MessageGroupId": group})
		}
		first := put("A", "a1")
		for _, m := range []string{"A a2", "B b1", "A a3"} {
			put(m[:1], m[2:])
		}
		if repeated := put("A", "a1"); repeated.MessageId != first.MessageId || repeated.SequenceNumber != first.SequenceNumber {
			t.Errorf("a repetition was answered with %+v, the first with %+v", repeated, first)
		}
		one := mustCall(t, s, "ReceiveMessage", request{"QueueUrl": u}).Messages
		if bodies(one) != "a1" {
			t.Fatalf("first %q", bodies(one))
		}
		if got := receive(t, s, u, 0); bodies(got) != "b1" {
			t.Fatalf("group A is held, got %q", bodies(got))
		}
		time.Sleep(10 * time.Second) // both come back, a1 before the rest of its group
		if got := receive(t, s, u, 0); bodies(got) != "a1 a2 b1 a3" {
			t.Fatalf("after the time-out %q", bodies(got))
		}
		if o := call(t.Context(), s, "DeleteMessage", request{"QueueUrl": u, "ReceiptHandle": one[0].ReceiptHandle}); o.Status != http.StatusOK {
			t.Errorf("an old receipt is not an error: %+v", o)
		}
		time.Sleep(5 * time.Minute)
		if again := put("A", "a1"); again.MessageId == first.MessageId {
			t.Error("still a repetition after five minutes")
		}
	})
}

func TestReceiveMessage_RejectsOverInFlightLimit(t *testing.T) {
	s := newServer(t, sqs.Options{MaxInFlight: 2})
	u := createQueue(t, s, "q", nil)
	for range 3 {
		send(t, s, u, "x")
	}
	got := receive(t, s, u, 0)
	if len(got) != 2 {
		t.Fatalf("%d in flight, the limit is 2", len(got))
	}
	if o := call(t.Context(), s, "ReceiveMessage", request{"QueueUrl": u}); o.Type != "com.amazonaws.sqs#OverLimit" {
		t.Fatalf("got %+v", o)
	}
	remove(t, s, u, got[0])
	if got := receive(t, s, u, 0); len(got) != 1 {
		t.Fatalf("%d after a delete", len(got))
	}
}

func TestServer_CloseEndsPollsAndRejectsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", nil)
		begin := time.Now()
		time.AfterFunc(time.Second, func() { _ = s.Close() })
		if got := receive(t, s, u, 20); len(got) != 0 || time.Since(begin) != time.Second {
			t.Fatalf("%v after %v", got, time.Since(begin))
		}
		if o := call(t.Context(), s, "SendMessage", request{"QueueUrl": u, "MessageBody": "x"}); o.Status != http.StatusInternalServerError || !strings.HasSuffix(o.Code, ";Receiver") {
			t.Fatalf("a send after the end: %+v", o)
		}
	})
}

func TestServer_UsesGivenClock(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := newServer(t, sqs.Options{Clock: func() time.Time { return now }})
	u := createQueue(t, s, "q", nil)
	mustCall(t, s, "SendMessage", request{"QueueUrl": u, "MessageBody": "x", "DelaySeconds": 900})
	now = now.Add(900*time.Second - 1)
	if got := receive(t, s, u, 0); len(got) != 0 {
		t.Fatal("too early")
	}
	now = now.Add(1)
	if got := receive(t, s, u, 0); len(got) != 1 || got[0].Attributes["SentTimestamp"] != "1767225600000" {
		t.Fatalf("got %v", got)
	}
}
