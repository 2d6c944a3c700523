package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lockstep-run/lockstep/shared/api/openapi"
	"github.com/lockstep-run/lockstep/statemachines"
)

// A request that names the tag of an answer gets it again only if it has changed.
func TestHandler_AnswersWhatHasNotChangedWithoutBody(t *testing.T) {
	f := newFake()
	h := newHandler(f)
	line := "GET /workflow-execution/id/" + executionID
	first := sendRequest(h, line, "")
	tag := first.Header().Get("ETag")
	if first.Code != http.StatusOK || !strings.HasPrefix(tag, `W/"`) || !strings.HasSuffix(tag, `"`) {
		t.Fatalf("%d %q", first.Code, tag)
	}
	strong := strings.TrimPrefix(tag, "W/")
	for _, c := range []struct {
		method, header string
		status         int
	}{
		{"GET", tag, http.StatusNotModified},
		{"GET", strong, http.StatusNotModified},
		{"GET", `"a", W/"b" , ` + tag, http.StatusNotModified},
		{"GET", "*", http.StatusNotModified},
		{"HEAD", tag, http.StatusNotModified},
		{"GET", `W/"another"`, http.StatusOK},
		{"GET", strings.Trim(strong, `"`), http.StatusOK},
		{"GET", strings.Repeat("a", 4097), http.StatusBadRequest},
	} {
		w := sendRequest(h, c.method+strings.TrimPrefix(line, "GET"), "", "If-None-Match: "+c.header)
		if w.Code != c.status || (w.Code < 400) != (w.Header().Get("ETag") == tag) {
			t.Errorf("%s %.50s: %d, tag %q", c.method, c.header, w.Code, w.Header().Get("ETag"))
		}
		if w.Code == http.StatusNotModified && (w.Body.Len() > 0 || w.Header().Get("Content-Type") != "" || w.Header().Get("Cache-Control") != "no-store") {
			t.Errorf("%s: %v %s", c.header, w.Header(), w.Body)
		}
	}
	f.later = time.Minute
	if w := sendRequest(h, line, "", "If-None-Match: "+tag); w.Code != http.StatusNotModified {
		t.Errorf("the time of the answer is a change: %d", w.Code)
	}
	f.executions[executionID].State = statemachines.ExecutionRollback
	if w := sendRequest(h, line, "", "If-None-Match: "+tag); w.Code != http.StatusOK || w.Header().Get("ETag") == tag {
		t.Errorf("a change is not answered: %d %s", w.Code, w.Header().Get("ETag"))
	}
}

// Every operation that the document calls conditional has a tag, and answers 304 for it; an error
// and what is not conditional has none.
func TestHandler_ConditionalRoutesHaveTags(t *testing.T) {
	conditional := 0
	for _, c := range servedRoutes {
		method, _, _ := strings.Cut(c.pattern, " ")
		is := openapi.Load().Operations[c.pattern].Conditional
		h := newHandler(newFake(), withMonitor)
		tag := sendRequest(h, method+" "+c.target, c.body).Header().Get("ETag")
		if is != (tag != "") {
			t.Errorf("%s: tag %q", c.pattern, tag)
		}
		if !is {
			continue
		}
		conditional++
		if w := sendRequest(h, method+" "+c.target, c.body, "If-None-Match: "+tag); w.Code != http.StatusNotModified {
			t.Errorf("%s: %d %s", c.pattern, w.Code, w.Body)
		}
		broken := newFake()
		broken.err = http.ErrServerClosed
		if w := sendRequest(newHandler(broken), method+" "+c.target, c.body, "If-None-Match: *"); w.Code != http.StatusInternalServerError || w.Header().Get("ETag") != "" {
			t.Errorf("%s: an error is %d with tag %q", c.pattern, w.Code, w.Header().Get("ETag"))
		}
	}
	if conditional < 14 {
		t.Errorf("only %d routes are conditional", conditional)
	}
}
