package sqs_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/sqs"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// These tests use a virtual clock: times are exact and no test waits.

func TestReceiveMessage_LongPollTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", nil)
		start := time.Now()
		if got := receive(t, s, u, 7); len(got) != 0 || time.Since(start) != 7*time.Second {
			t.Fatalf("%v after %v", got, time.Since(start))
		}
	})
}

func TestReceiveMessage_LongPollWakesOnSend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", nil)
		start := time.Now()
		time.AfterFunc(3*time.Second, func() { call(t.Context(), s, "SendMessage", request{"QueueUrl": u, "MessageBody": "x"}) })
		if got := receive(t, s, u, 20); len(got) != 1 || time.Since(start) != 3*time.Second {
			t.Fatalf("%v after %v", got, time.Since(start))
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
			t.Fatalf("the polls received %q", all)
		}
	})
}

// A delay and a visibility timeout both end during a long poll, exact to the
// millisecond. Neither needs a request to take effect.
func TestServer_DelayAndVisibilityAreExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", map[string]string{"VisibilityTimeout": "5"})
		start := time.Now()
		mustCall(t, s, "SendMessage", request{"QueueUrl": u, "MessageBody": "x", "DelaySeconds": 2})
		if n := queueAttribute(t, s, u, "ApproximateNumberOfMessagesDelayed"); n != "1" {
			t.Errorf("%s messages delayed, want 1", n)
		}
		first := receive(t, s, u, 20)
		if len(first) != 1 || time.Since(start) != 2*time.Second {
			t.Fatalf("delay: %v after %v", first, time.Since(start))
		}
		again := receive(t, s, u, 20)
		if len(again) != 1 || time.Since(start) != 7*time.Second {
			t.Fatalf("visibility: %v after %v", again, time.Since(start))
		}
		if n := again[0].Attributes["ApproximateReceiveCount"]; n != "2" {
			t.Errorf("receive count %s, want 2", n)
		}
		mustCall(t, s, "ChangeMessageVisibility", request{"QueueUrl": u, "ReceiptHandle": again[0].ReceiptHandle, "VisibilityTimeout": 11})
		if got := receive(t, s, u, 20); len(got) != 1 || time.Since(start) != 18*time.Second {
			t.Fatalf("extended: %v after %v", got, time.Since(start))
		}
	})
}

// A message is hidden for at most twelve hours from when it was received, however often that is changed.
func TestServer_HidesAMessageForTwelveHoursInAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", map[string]string{"VisibilityTimeout": "30"})
		mustCall(t, s, "SendMessage", request{"QueueUrl": u, "MessageBody": "x"})
		m := receive(t, s, u, 0)[0]
		time.Sleep(10 * time.Second)
		const longest = 12 * 3600
		o := call(t.Context(), s, "ChangeMessageVisibility", request{"QueueUrl": u, "ReceiptHandle": m.ReceiptHandle, "VisibilityTimeout": longest})
		if o.Status != http.StatusBadRequest || !strings.Contains(o.Message, "beyond the limit [43200 seconds]") {
			t.Errorf("%d %s", o.Status, o.Message)
		}
		mustCall(t, s, "ChangeMessageVisibility", request{"QueueUrl": u, "ReceiptHandle": m.ReceiptHandle, "VisibilityTimeout": longest - 10})
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
			t.Errorf("an old receipt handle changed the visibility: %+v", o)
		}
		time.Sleep(time.Second)
		if n := queueAttribute(t, s, u, "ApproximateNumberOfMessages"); n != "1" {
			t.Fatalf("%s messages are left, want 1", n)
		}
		// Visible again, but not received again: the latest receipt handle is valid.
		remove(t, s, u, latest)
		if got := receive(t, s, u, 0); len(got) != 0 {
			t.Fatalf("%v after the delete", got)
		}
	})
}

// A client that disconnects during a poll must not take a message with it.
func TestReceiveMessage_GoneClientTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", nil)
		for _, late := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan reply)
			go func() { done <- call(ctx, s, "ReceiveMessage", request{"QueueUrl": u, "WaitTimeSeconds": 20}) }()
			synctest.Wait()
			if late { // the delivery races with the disconnect
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
		start := time.Now()
		sent := send(t, s, u, "poison")
		for range 2 {
			if got := receive(t, s, u, 20); len(got) != 1 {
				t.Fatalf("received %d messages before the last receive, want 1", len(got))
			}
		}
		deadLetters := receive(t, s, dlq, 20) // no request names the source queue
		if len(deadLetters) != 1 || time.Since(start) != 6*time.Second {
			t.Fatalf("%v after %v", deadLetters, time.Since(start))
		}
		if deadLetters[0].MessageId != sent.MessageId || deadLetters[0].Attributes["DeadLetterQueueSourceArn"] != queueAttribute(t, s, u, "QueueArn") {
			t.Errorf("the dead letter is another message: %+v", deadLetters[0])
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

func TestReceiveMessage_RejectsOverInFlightLimit(t *testing.T) {
	s := newServer(t, sqs.Options{MaxInFlight: 2})
	u := createQueue(t, s, "q", nil)
	for range 3 {
		send(t, s, u, "x")
	}
	got := receive(t, s, u, 0)
	if len(got) != 2 {
		t.Fatalf("%d messages in flight, the limit is 2", len(got))
	}
	if o := call(t.Context(), s, "ReceiveMessage", request{"QueueUrl": u}); o.Type != "com.amazonaws.sqs#OverLimit" {
		t.Fatalf("got %+v", o)
	}
	remove(t, s, u, got[0])
	if got := receive(t, s, u, 0); len(got) != 1 {
		t.Fatalf("%d messages after a delete, want 1", len(got))
	}
}

func TestServer_CloseEndsPollsAndRejectsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, sqs.Options{})
		u := createQueue(t, s, "q", nil)
		start := time.Now()
		time.AfterFunc(time.Second, func() { _ = s.Close() })
		if got := receive(t, s, u, 20); len(got) != 0 || time.Since(start) != time.Second {
			t.Fatalf("%v after %v", got, time.Since(start))
		}
		if o := call(t.Context(), s, "SendMessage", request{"QueueUrl": u, "MessageBody": "x"}); o.Status != http.StatusInternalServerError || !strings.HasSuffix(o.Code, ";Receiver") {
			t.Fatalf("send after Close: %+v", o)
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
		t.Fatal("the message was visible before its delay ended")
	}
	now = now.Add(1)
	if got := receive(t, s, u, 0); len(got) != 1 || got[0].Attributes["SentTimestamp"] != "1767225600000" {
		t.Fatalf("got %v", got)
	}
}

// The alarms on dead letters are raised when a function has failed with a message as often as its queue
// allows, and not before.
func TestAlarm_DeadLetters(t *testing.T) {
	for name, receives := range map[string]int{
		"LifecycleDeadLetters": topology.MaxReceiveLifecycle, "JobsDefaultDeadLetters": topology.MaxReceiveJobs, "EventsDeadLetters": topology.MaxReceiveEvents, "HooksOutDeadLetters": topology.MaxReceiveHooksOut,
	} {
		for failures, fires := range map[int]bool{receives - 1: false, receives: true} {
			synctest.Test(t, func(t *testing.T) {
				s, alarm := newServer(t, sqs.Options{}), testkit.ReadAlarm(t, name)
				dlq := createQueue(t, s, "dlq", nil)
				u := createQueue(t, s, "q", map[string]string{"VisibilityTimeout": "720", "RedrivePolicy": redrivePolicy(t, s, dlq, strconv.Itoa(receives))})
				send(t, s, u, "x")
				var visible []testkit.Measured
				for received := 0; len(visible) < 300; { // minutes
					for _, m := range receive(t, s, u, 0) {
						if received++; received > failures {
							remove(t, s, u, m)
						}
					}
					n, err := strconv.Atoi(queueAttribute(t, s, dlq, "ApproximateNumberOfMessages"))
					if err != nil {
						t.Fatal(err)
					}
					visible = append(visible, testkit.Measured{At: time.Now(), Value: n})
					time.Sleep(time.Minute)
				}
				if got := alarm.Fires(visible); got != fires {
					t.Errorf("%s, after %d failures: raised %v, want %v", name, failures, got, fires)
				}
			})
		}
	}
}

// The alarms on old messages are raised when nobody has received one for as long as the template says, and for
// five minutes more. CloudWatch's age is that of the oldest message that is not deleted.
func TestAlarm_OldMessages(t *testing.T) {
	for name, after := range map[string]time.Duration{"LifecycleOld": 30 * time.Minute, "JobsDefaultOld": 30 * time.Minute, "EventsOld": 30 * time.Minute, "HooksOutOld": 6 * time.Hour} {
		for workedAfter, fires := range map[time.Duration]bool{after: false, after + 6*time.Minute: true} {
			synctest.Test(t, func(t *testing.T) {
				s, alarm := newServer(t, sqs.Options{}), testkit.ReadAlarm(t, name)
				u := createQueue(t, s, "q", nil)
				begin := time.Now()
				send(t, s, u, "x")
				var age []testkit.Measured
				for time.Since(begin) < 7*time.Hour {
					if time.Since(begin) >= workedAfter { // a worker has come
						for _, m := range receive(t, s, u, 0) {
							remove(t, s, u, m)
						}
					}
					oldest := 0
					if queueAttribute(t, s, u, "ApproximateNumberOfMessages") != "0" {
						oldest = int(time.Since(begin).Seconds())
					}
					age = append(age, testkit.Measured{At: time.Now(), Value: oldest})
					time.Sleep(time.Minute)
				}
				if got := alarm.Fires(age); got != fires {
					t.Errorf("%s, a worker comes after %s: raised %v, want %v", name, workedAfter, got, fires)
				}
			})
		}
	}
}
