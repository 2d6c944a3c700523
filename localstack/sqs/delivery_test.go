package sqs_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/localstack/sqs"
)

// These tests run on a virtual clock, so times are exact and cost nothing.

func TestALongPollEndsWhenItsTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		u := create(t, s, "q", nil)
		begin := time.Now()
		if got := receive(t, s, u, 7); len(got) != 0 || time.Since(begin) != 7*time.Second {
			t.Fatalf("%v after %v", got, time.Since(begin))
		}
	})
}

func TestALongPollWakesAtTheMomentOfASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		u := create(t, s, "q", nil)
		begin := time.Now()
		time.AfterFunc(3*time.Second, func() { try(t.Context(), s, "SendMessage", in{"QueueUrl": u, "MessageBody": "x"}) })
		if got := receive(t, s, u, 20); len(got) != 1 || time.Since(begin) != 3*time.Second {
			t.Fatalf("%v after %v", got, time.Since(begin))
		}
	})
}

func TestEachPollGetsOneOfAsManyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		u := create(t, s, "q", nil)
		got := make(chan string, 5)
		for range 5 {
			go func() {
				o := try(t.Context(), s, "ReceiveMessage", in{"QueueUrl": u, "WaitTimeSeconds": 20})
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
func TestDelayAndVisibilityAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		u := create(t, s, "q", map[string]string{"VisibilityTimeout": "5"})
		begin := time.Now()
		ask(t, s, "SendMessage", in{"QueueUrl": u, "MessageBody": "x", "DelaySeconds": 2})
		if n := attribute(t, s, u, "ApproximateNumberOfMessagesDelayed"); n != "1" {
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
		ask(t, s, "ChangeMessageVisibility", in{"QueueUrl": u, "ReceiptHandle": again[0].ReceiptHandle, "VisibilityTimeout": 11})
		if got := receive(t, s, u, 20); len(got) != 1 || time.Since(begin) != 18*time.Second {
			t.Fatalf("extended: %v after %v", got, time.Since(begin))
		}
	})
}

func TestAnOldReceiptDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		u := create(t, s, "q", map[string]string{"VisibilityTimeout": "1"})
		send(t, s, u, "x")
		old := receive(t, s, u, 0)[0]
		time.Sleep(time.Second)
		latest := receive(t, s, u, 0)[0]
		remove(t, s, u, old)
		o := try(t.Context(), s, "ChangeMessageVisibility", in{"QueueUrl": u, "ReceiptHandle": old.ReceiptHandle, "VisibilityTimeout": 0})
		if o.Status != http.StatusBadRequest {
			t.Errorf("an old receipt changed the visibility: %+v", o)
		}
		time.Sleep(time.Second)
		if n := attribute(t, s, u, "ApproximateNumberOfMessages"); n != "1" {
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
func TestAPollWhoseClientIsGoneTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		u := create(t, s, "q", nil)
		for _, late := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan out)
			go func() { done <- try(ctx, s, "ReceiveMessage", in{"QueueUrl": u, "WaitTimeSeconds": 20}) }()
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

func TestDeadLettersMoveWhenTheLastTryEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		dlq := create(t, s, "q-dlq", nil)
		u := create(t, s, "q", map[string]string{"VisibilityTimeout": "3", "RedrivePolicy": redrive(t, s, dlq, `"2"`)})
		begin := time.Now()
		sent := send(t, s, u, "poison")
		for range 2 {
			if got := receive(t, s, u, 20); len(got) != 1 {
				t.Fatalf("%d messages before the last try", len(got))
			}
		}
		dead := receive(t, s, dlq, 20) // nobody touches the source queue
		if len(dead) != 1 || time.Since(begin) != 6*time.Second {
			t.Fatalf("%v after %v", dead, time.Since(begin))
		}
		if dead[0].MessageId != sent.MessageId || dead[0].Attributes["DeadLetterQueueSourceArn"] != attribute(t, s, u, "QueueArn") {
			t.Errorf("not the same message: %+v", dead[0])
		}
		if o := ask(t, s, "ListDeadLetterSourceQueues", in{"QueueUrl": dlq}); !slices.Equal(o.QueueUrls, []string{u}) {
			t.Errorf("sources %v", o.QueueUrls)
		}
		ask(t, s, "ChangeMessageVisibility", in{"QueueUrl": dlq, "ReceiptHandle": dead[0].ReceiptHandle, "VisibilityTimeout": 0})
		arn := attribute(t, s, dlq, "QueueArn")
		ask(t, s, "StartMessageMoveTask", in{"SourceArn": arn})
		back := receive(t, s, u, 0)
		if len(back) != 1 || back[0].MessageId == sent.MessageId || back[0].Attributes["ApproximateReceiveCount"] != "1" {
			t.Fatalf("a moved message is a new one: %+v", back)
		}
		if o := ask(t, s, "ListMessageMoveTasks", in{"SourceArn": arn}); len(o.Results) != 1 || o.Results[0]["ApproximateNumberOfMessagesMoved"] != 1.0 {
			t.Errorf("tasks %v", o.Results)
		}
	})
}

func TestMessagesOlderThanTheRetentionAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		u := create(t, s, "q", map[string]string{"MessageRetentionPeriod": "60", "VisibilityTimeout": "100"})
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

func TestFIFOGroupsAndDeduplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		u := create(t, s, "q.fifo", map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "10"})
		put := func(group, body string) out {
			return ask(t, s, "SendMessage", in{"QueueUrl": u, "MessageBody": body, "MessageGroupId": group})
		}
		first := put("A", "a1")
		for _, m := range []string{"A a2", "B b1", "A a3"} {
			put(m[:1], m[2:])
		}
		if repeated := put("A", "a1"); repeated.MessageId != first.MessageId || repeated.SequenceNumber != first.SequenceNumber {
			t.Errorf("a repetition was answered with %+v, the first with %+v", repeated, first)
		}
		one := ask(t, s, "ReceiveMessage", in{"QueueUrl": u}).Messages
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
		if o := try(t.Context(), s, "DeleteMessage", in{"QueueUrl": u, "ReceiptHandle": one[0].ReceiptHandle}); o.Status != http.StatusOK {
			t.Errorf("an old receipt is not an error: %+v", o)
		}
		time.Sleep(5 * time.Minute)
		if again := put("A", "a1"); again.MessageId == first.MessageId {
			t.Error("still a repetition after five minutes")
		}
	})
}

func TestTooManyInFlight(t *testing.T) {
	s := server(t, sqs.Options{MaxInFlight: 2})
	u := create(t, s, "q", nil)
	for range 3 {
		send(t, s, u, "x")
	}
	got := receive(t, s, u, 0)
	if len(got) != 2 {
		t.Fatalf("%d in flight, the limit is 2", len(got))
	}
	if o := try(t.Context(), s, "ReceiveMessage", in{"QueueUrl": u}); o.Type != "com.amazonaws.sqs#OverLimit" {
		t.Fatalf("got %+v", o)
	}
	remove(t, s, u, got[0])
	if got := receive(t, s, u, 0); len(got) != 1 {
		t.Fatalf("%d after a delete", len(got))
	}
}

func TestCloseEndsPollsAndRefusesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, sqs.Options{})
		u := create(t, s, "q", nil)
		begin := time.Now()
		time.AfterFunc(time.Second, func() { _ = s.Close() })
		if got := receive(t, s, u, 20); len(got) != 0 || time.Since(begin) != time.Second {
			t.Fatalf("%v after %v", got, time.Since(begin))
		}
		if o := try(t.Context(), s, "SendMessage", in{"QueueUrl": u, "MessageBody": "x"}); o.Status != http.StatusInternalServerError || !strings.HasSuffix(o.Code, ";Receiver") {
			t.Fatalf("a send after the end: %+v", o)
		}
	})
}

func TestAClockOfOnesOwn(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := server(t, sqs.Options{Clock: func() time.Time { return now }})
	u := create(t, s, "q", nil)
	ask(t, s, "SendMessage", in{"QueueUrl": u, "MessageBody": "x", "DelaySeconds": 900})
	now = now.Add(900*time.Second - 1)
	if got := receive(t, s, u, 0); len(got) != 0 {
		t.Fatal("too early")
	}
	now = now.Add(1)
	if got := receive(t, s, u, 0); len(got) != 1 || got[0].Attributes["SentTimestamp"] != "1767225600000" {
		t.Fatalf("got %v", got)
	}
}
