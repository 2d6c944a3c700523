package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
	sm "github.com/lockstep-run/lockstep/statemachines"
	"github.com/lockstep-run/lockstep/tests/testkit"
)

// hookReceiver is a receiver of webhooks that refuses some of the first requests.
type hookReceiver struct {
	mu       sync.Mutex
	secret   string
	requests int
	bodies   []views.DeliveryBody
	texts    []string
	unsigned int
}

func (h *hookReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	// A delivery that is refused twice is tried again after minutes, so only first tries are refused.
	if h.requests++; h.requests < 12 && h.requests%3 == 1 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if r.URL.Path == "/chat" {
		var text struct{ Text string }
		_ = json.Unmarshal(body, &text)
		h.texts = append(h.texts, text.Text)
		return
	}
	at, signature, _ := strings.Cut(r.Header.Get("Lockstep-Signature"), ",v1=")
	mac := hmac.New(sha256.New, []byte(h.secret))
	fmt.Fprintf(mac, "%s.%s", strings.TrimPrefix(at, "t="), body)
	if signature != hex.EncodeToString(mac.Sum(nil)) {
		h.unsigned++
	}
	var one views.DeliveryBody
	_ = json.Unmarshal(body, &one)
	h.bodies = append(h.bodies, one)
}

// told lists the events of an execution that have been received.
func (h *hookReceiver) told(id string) map[int64]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	told := map[int64]bool{}
	for _, b := range h.bodies {
		for _, e := range b.Events {
			if b.Execution == id {
				told[e.Sequence] = true
			}
		}
	}
	return told
}

// A webhook that refuses some requests at first is told of every event, in signed requests, while
// the functions that tell it are killed. A chat is told of what has failed. A history that is
// followed has the same events.
func TestObserver_WebhookIsToldOfEveryEvent(t *testing.T) {
	t.Parallel()
	receiver := &hookReceiver{}
	server, url := serveReachable(receiver)
	defer server.Close()
	q := serveQueues(t)
	q.setVisibility(10 * time.Second) // what a killed function had received comes again after three minutes else
	s := startStack(t, stackOptions{env: []string{q.env()}, config: fastConfig + "observe: {age: 1s, alerts: \"" + url + "/chat\"}\n"})
	ctx := t.Context()
	s.publish("package: test\nname: seen\nversion: 1.0.0\nseedEntity: device\nparameters: {type: object, properties: {n: {type: integer}}}\nsteps:\n" +
		"  - {label: a, set: {n: '${parameters.n}'}}\n  - {label: pause, wait: {for: 1s}}\n  - {label: b, set: {n: '${vars.n + 1}'}, assert: ['vars.n < 100']}\n")
	if _, err := s.PutSubscription(ctx, "elsewhere", views.SubscriptionRequest{URL: "http://169.254.169.254/latest"}); err == nil || !strings.Contains(err.Error(), "allow list") {
		t.Errorf("a webhook on a host that is not allowed: %v", err)
	}
	made, err := s.PutSubscription(ctx, "all", views.SubscriptionRequest{URL: url + "/hook", Workflows: []string{"test/seen"}})
	if err != nil || made.Secret == nil || made.Since == nil {
		t.Fatal(made, err)
	}
	receiver.mu.Lock()
	receiver.secret = *made.Secret
	receiver.mu.Unlock()
	if read, err := s.Subscription(ctx, "all"); err != nil || read.Secret != nil {
		t.Errorf("read again: %+v, %v", read, err)
	}
	time.Sleep(time.Until(*made.Since))
	var ids []string
	for i := range 8 {
		ids = append(ids, s.startExecution("test/seen", fmt.Sprintf(`{"n":%d}`, i)))
		if i == 1 {
			s.killAll("functions/observer/bootstrap")
		}
	}
	failed := s.startExecution("test/seen", `{"n":100}`)
	for _, id := range ids {
		s.waitForState(id, sm.ExecutionCompletedAck)
	}
	s.waitForState(failed, sm.ExecutionFailedSafeAck)
	for _, id := range append(ids, failed) {
		events := s.history(id)
		testkit.EventuallyWithin(t, 5*time.Minute, 50*time.Millisecond, "every event of "+id+" is told", func() bool {
			told := receiver.told(id)
			for _, e := range events {
				if !told[e.Sequence] {
					return false
				}
			}
			return true
		})
	}
	testkit.EventuallyWithin(t, 5*time.Minute, 50*time.Millisecond, "the chat is told of "+failed, func() bool {
		receiver.mu.Lock()
		defer receiver.mu.Unlock()
		return len(receiver.texts) > 0 && strings.Contains(receiver.texts[0], "at step b")
	})
	code, out, errOut := runLockstep(t, "", "--url="+s.url, "subscriptions", "test", "all")
	if code != 0 || out != "received, with status 200\n" {
		t.Errorf("test: exit %d\n%s%s", code, out, errOut)
	}
	deliveries, err := s.Deliveries(ctx, "all")
	if err != nil || len(deliveries) < 5 || !deliveries[0].Test || deliveries[0].Status != 200 {
		t.Errorf("%+v, %v", deliveries, err)
	}
	again := 0
	for _, d := range deliveries {
		if again = max(again, d.Attempts); !d.Delivered && d.Status != 503 {
			t.Errorf("%+v", d)
		}
	}
	if again < 2 {
		t.Errorf("none was tried again: %+v", deliveries)
	}
	if code, out, errOut := runLockstep(t, "", "--url="+s.url, "subscriptions", "deliveries", "all"); code != 0 || !strings.Contains(out, "received (a test)") || strings.Contains(out, *made.Secret) {
		t.Errorf("deliveries: exit %d\n%s%s", code, out, errOut)
	}
	receiver.mu.Lock()
	defer receiver.mu.Unlock()
	if receiver.unsigned > 0 {
		t.Errorf("%d of %d requests are not signed with the secret", receiver.unsigned, receiver.requests)
	}
	for _, text := range receiver.texts {
		if !strings.Contains(text, failed) {
			t.Errorf("the chat was told %q", text)
		}
	}
	code, out, errOut = runLockstep(t, "", "--url="+s.url, "history", ids[0], "--follow", "-o", "json")
	if lines := strings.Count(out, "\n"); code != 0 || lines != len(s.history(ids[0])) {
		t.Errorf("follow: exit %d, %d events\n%s%s", code, lines, out, errOut)
	}
	if code, out, errOut := runLockstep(t, "", "--url="+s.url, "subscriptions", "remove", "all"); code != 0 {
		t.Errorf("remove: exit %d\n%s%s", code, out, errOut)
	}
}
