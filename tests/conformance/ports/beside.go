package ports

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Beside checks what a port.Store keeps beside the state items.
func Beside(t *testing.T, open Open) {
	each(t, open, map[string]func(s *scene){
		"a large input": func(s *scene) {
			id := newID()
			_, err := s.Store.LoadInput(s.ctx, s.tenant, id)
			s.code(err, workflow.CodeNotFound)
			in := workflow.Input{Parameters: json.RawMessage(`{"list":"` + noise(200<<10) + `"}`), Selector: &workflow.Selector{Type: "device", Query: "true"}}
			s.ok(s.Store.SaveInput(s.ctx, s.tenant, id, in))
			if diff := cmp.Diff(in, must[workflow.Input](s)(s.Store.LoadInput(s.ctx, s.tenant, id)), byBytes); diff != "" {
				s.Error(diff)
			}
			in.Parameters = json.RawMessage(`"` + noise(900<<10) + `"`)
			s.code(s.Store.SaveInput(s.ctx, s.tenant, id, in), workflow.CodeTooLarge)
		},
		"a scope in chunks": func(s *scene) {
			id := newID()
			var scope []workflow.Held
			for i := range 10_000 {
				scope = append(scope, workflow.Held{
					Key: workflow.EntityKey{Type: "device", ID: fmt.Sprintf("sw-%05d", i)}, Token: int64(i),
					Attributes: json.RawMessage(fmt.Sprintf(`{"address":"http://127.0.0.1:9000/%d","site":"%d"}`, i, i%17)),
				})
			}
			chunks := must[int](s)(s.Store.SaveScope(s.ctx, s.tenant, id, "k1", scope))
			if chunks < 2 {
				s.Errorf("%d chunks", chunks)
			}
			other := must[int](s)(s.Store.SaveScope(s.ctx, s.tenant, id, "k2", scope[:1]))
			if diff := cmp.Diff(scope, must[[]workflow.Held](s)(s.Store.LoadScope(s.ctx, s.tenant, id, "k1", chunks)), byBytes); diff != "" {
				s.Error(diff)
			}
			if diff := cmp.Diff(scope[:1], must[[]workflow.Held](s)(s.Store.LoadScope(s.ctx, s.tenant, id, "k2", other))); diff != "" {
				s.Error(diff)
			}
			_, err := s.Store.LoadScope(s.ctx, s.tenant, id, "k1", chunks+1)
			s.code(err, workflow.CodeNotFound)
			if n := must[int](s)(s.Store.SaveScope(s.ctx, s.tenant, id, "k3", nil)); n != 0 {
				s.Errorf("%d chunks for nothing", n)
			}
		},
		"pages of events": func(s *scene) {
			id := newID()
			if none := must[[]workflow.Event](s)(s.Store.LoadEvents(s.ctx, s.tenant, id, 0, 10)); len(none) != 0 {
				s.Errorf("found %v", none)
			}
			all := events(1, 95)
			for first := 0; first < len(all); first += 30 {
				s.ok(s.Store.SaveEvents(s.ctx, s.tenant, id, all[first:min(len(all), first+30)]))
			}
			s.ok(s.Store.SaveEvents(s.ctx, s.tenant, id, nil))
			check := func(after, limit int) {
				s.Helper()
				got := must[[]workflow.Event](s)(s.Store.LoadEvents(s.ctx, s.tenant, id, int64(after), limit))
				if diff := cmp.Diff(all[after:min(len(all), after+limit)], got); diff != "" {
					s.Errorf("after %d, at most %d: %s", after, limit, diff)
				}
			}
			check(0, 1000)
			check(0, 30)
			check(0, 7)
			check(29, 5)
			check(30, 5)
			check(44, 40)
			check(94, 10)
			if none := must[[]workflow.Event](s)(s.Store.LoadEvents(s.ctx, s.tenant, id, 95, 10)); len(none) != 0 {
				s.Errorf("found %v", none)
			}
			// The same page again, and a late handler's shorter one.
			s.ok(s.Store.SaveEvents(s.ctx, s.tenant, id, all[30:60]))
			s.ok(s.Store.SaveEvents(s.ctx, s.tenant, id, all[30:40]))
			check(0, 1000)
			// A longer one reaches into the page that follows.
			s.ok(s.Store.SaveEvents(s.ctx, s.tenant, id, all[30:70]))
			check(0, 1000)
			check(65, 3)
		},
	})
}

// noise does not compress to less than three quarters.
func noise(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}
