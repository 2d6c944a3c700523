package api_test

import (
	"testing"

	"github.com/lockstep-run/lockstep/shared/api"
)

// Pages of an origin that is let in may write, and their browser is told so before it
// lets them; those of any other may do neither.
func TestHandler_CrossOriginRequests(t *testing.T) {
	const start = "POST /workflow-execution"
	for name, c := range map[string]struct {
		line, body, origin string
		headers            []string
		status             int
	}{
		"question of a page":          {"OPTIONS /workflow-execution", "", "https://ops.example", []string{"Access-Control-Request-Method: POST"}, 204},
		"its request":                 {start, startBody, "https://ops.example", []string{"Sec-Fetch-Site: cross-site"}, 202},
		"question of a stranger":      {"OPTIONS /workflow-execution", "", "https://evil.example", []string{"Access-Control-Request-Method: POST"}, 405},
		"a stranger's request":        {start, startBody, "https://evil.example", []string{"Sec-Fetch-Site: cross-site"}, 403},
		"OPTIONS that is no question": {"OPTIONS /workflow-execution", "", "https://ops.example", nil, 405},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			h := newHandler(f, func(o *api.Options) { o.Origins = []string{"https://ops.example"} })
			w := sendRequest(h, c.line, c.body, append(c.headers, "Origin: "+c.origin)...)
			if w.Code != c.status {
				t.Fatalf("status %d, want %d: %.300s", w.Code, c.status, w.Body)
			}
			if reached := len(f.calls) > 0; reached != (c.status == 202) {
				t.Errorf("reached %v", f.calls)
			}
		})
	}
}
