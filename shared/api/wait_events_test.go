package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// eventually has no event until some time has passed.
type eventually struct {
	*fake
	at    time.Time
	reads int
}

func (e *eventually) handler() http.Handler {
	opt := api.Options{TrustHeaders: true, Log: discardLog, NewID: func() string { return "made-up" }}
	return api.New(api.Services{Catalog: e, Engine: e, Queries: e, WorkerAPI: e, Operations: e}, opt)
}

func (e *eventually) History(ctx context.Context, c workflow.Caller, id string, after int64, page workflow.Page) (workflow.List[workflow.Event], error) {
	e.reads++
	if time.Now().Before(e.at) {
		return workflow.List[workflow.Event]{}, nil
	}
	return e.fake.History(ctx, c, id, after, page)
}

// A request that waits for events is answered as soon as there is one, or when its time is over,
// after at most 20 s. Without a wait it looks once.
func TestListEvents_WaitsForAnEvent(t *testing.T) {
	for query, want := range map[string]struct {
		comes, answered time.Duration
		events, reads   int
	}{
		"":                  {time.Hour, 0, 0, 1},
		"?wait=0s":          {time.Hour, 0, 0, 1},
		"?wait=20s":         {0, 0, 2, 1},
		"?wait=19s":         {2500 * time.Millisecond, 3 * time.Second, 2, 4},
		"?wait=5s":          {time.Hour, 5 * time.Second, 0, 6},
		"?wait=1s":          {time.Hour, time.Second, 0, 2},
		"?after=7&wait=20s": {time.Hour, 20 * time.Second, 0, 21},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			e := &eventually{fake: newFake(), at: begun.Add(want.comes)}
			w := sendRequest(e.handler(), "GET /workflow-execution/id/"+executionID+"/history"+query, "")
			var page struct{ Items []json.RawMessage }
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%q: %d %s", query, w.Code, w.Body)
			}
			if took := time.Since(begun); took != want.answered || len(page.Items) != want.events || e.reads != want.reads {
				t.Errorf("%q: %d events after %s and %d reads, want %d after %s and %d", query, len(page.Items), took, e.reads, want.events, want.answered, want.reads)
			}
		})
	}
}

// The longest wait is bounded, so that the answer comes before the gateway gives up.
func TestListEvents_RefusesLongerWaits(t *testing.T) {
	for _, wait := range []string{"21s", "100s", "1m", "1.5s", "-1s", "s", "20"} {
		w := sendRequest(newHandler(newFake()), "GET /workflow-execution/id/"+executionID+"/history?wait="+wait, "")
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"path":"wait"`) {
			t.Errorf("%s: %d %s", wait, w.Code, w.Body)
		}
	}
}

// Nobody waits for a client that is gone.
func TestListEvents_EndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		e := &eventually{fake: newFake(), at: begun.Add(time.Hour)}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/workflow-execution/id/"+executionID+"/history?wait=20s", nil)
		e.handler().ServeHTTP(httptest.NewRecorder(), r)
		if took := time.Since(begun); took != 1500*time.Millisecond || e.reads != 2 {
			t.Errorf("ended after %s and %d reads", took, e.reads)
		}
	})
}
