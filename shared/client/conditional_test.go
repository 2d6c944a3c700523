package client_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/views"
)

// Wait asks for what has changed, and goes on with what it has where nothing has.
func TestWait_ReadsOnlyWhatHasChanged(t *testing.T) {
	states := []string{"LOCKED", "RUNNING", "RUNNING", "RUNNING", "COMPLETED_ACK"}
	var asked []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		state := states[len(asked)]
		asked = append(asked, r.Header.Get("If-None-Match"))
		w.Header().Set("ETag", `W/"`+state+`"`)
		if r.Header.Get("If-None-Match") == `W/"`+state+`"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprintf(w, `{"id":"x","state":%q}`, state)
	}))
	defer s.Close()
	var seen []string
	x, err := newClient(t, s.URL, nil).Wait(t.Context(), "x", time.Second, func(x views.ExecutionView) { seen = append(seen, string(x.State)) })
	if want := []string{"", `W/"LOCKED"`, `W/"RUNNING"`, `W/"RUNNING"`, `W/"RUNNING"`}; err != nil || x.State != "COMPLETED_ACK" || !slices.Equal(seen, states) || !slices.Equal(asked, want) {
		t.Errorf("%v: %s, %q, asked %q", err, x.State, seen, asked)
	}
}
