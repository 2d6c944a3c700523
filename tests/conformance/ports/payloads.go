package ports

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Payloads checks what a port.Store keeps outside the state item.
func Payloads(t *testing.T, open Open) {
	runParallel(t, open, map[string]func(s *fixture){
		"large inputs": func(s *fixture) {
			id := newID()
			_, err := s.Store.LoadInput(s.ctx, s.tenant, id)
			s.wantCode(err, workflow.CodeNotFound)
			in := workflow.Input{Parameters: json.RawMessage(`{"list":"` + incompressible(200<<10) + `"}`), Selector: &workflow.Selector{Type: "device", Query: "true"}}
			s.noError(s.Store.SaveInput(s.ctx, s.tenant, id, in))
			if diff := cmp.Diff(in, must[workflow.Input](s)(s.Store.LoadInput(s.ctx, s.tenant, id)), compareRawJSON); diff != "" {
				s.Error(diff)
			}
			in.Parameters = json.RawMessage(`"` + incompressible(900<<10) + `"`)
			s.wantCode(s.Store.SaveInput(s.ctx, s.tenant, id, in), workflow.CodeTooLarge)
		},
		"scopes in chunks": func(s *fixture) {
			id := newID()
			var scope []workflow.ScopeEntity
			for i := range 10_000 {
				scope = append(scope, workflow.ScopeEntity{
					Key: workflow.EntityKey{Type: "device", ID: fmt.Sprintf("sw-%05d", i)}, Token: int64(i),
					Attributes: json.RawMessage(fmt.Sprintf(`{"address":"http://127.0.0.1:9000/%d","site":"%d"}`, i, i%17)),
				})
			}
			chunks, perChunk, err := s.Store.SaveScope(s.ctx, s.tenant, id, "k1", scope)
			s.noError(err)
			if chunks < 2 {
				s.Errorf("%d chunks, want at least 2", chunks)
			}
			other, _, err := s.Store.SaveScope(s.ctx, s.tenant, id, "k2", scope[:1])
			s.noError(err)
			if diff := cmp.Diff(scope, must[[]workflow.ScopeEntity](s)(s.Store.LoadScope(s.ctx, s.tenant, id, "k1", 0, chunks)), compareRawJSON); diff != "" {
				s.Error(diff)
			}
			if diff := cmp.Diff(scope[:1], must[[]workflow.ScopeEntity](s)(s.Store.LoadScope(s.ctx, s.tenant, id, "k2", 0, other))); diff != "" {
				s.Error(diff)
			}
			for i := range chunks { // the place of an entity says in which chunk it is
				want := scope[i*perChunk : min(len(scope), (i+1)*perChunk)]
				if diff := cmp.Diff(want, must[[]workflow.ScopeEntity](s)(s.Store.LoadScope(s.ctx, s.tenant, id, "k1", i, i+1)), compareRawJSON); diff != "" {
					s.Error(i, diff)
				}
			}
			_, err = s.Store.LoadScope(s.ctx, s.tenant, id, "k1", 0, chunks+1)
			s.wantCode(err, workflow.CodeNotFound)
			n, _, err := s.Store.SaveScope(s.ctx, s.tenant, id, "k3", nil)
			if s.noError(err); n != 0 {
				s.Errorf("%d chunks for an empty scope", n)
			}
		},
		"pages of events": func(s *fixture) {
			id := newID()
			if none := must[[]workflow.Event](s)(s.Store.LoadEvents(s.ctx, s.tenant, id, 0, 10)); len(none) != 0 {
				s.Errorf("found %v", none)
			}
			all := makeEvents(1, 95)
			for first := 0; first < len(all); first += 30 {
				s.noError(s.Store.SaveEvents(s.ctx, s.tenant, id, all[first:min(len(all), first+30)]))
			}
			s.noError(s.Store.SaveEvents(s.ctx, s.tenant, id, nil))
			check := func(after, limit int) {
				s.Helper()
				got := must[[]workflow.Event](s)(s.Store.LoadEvents(s.ctx, s.tenant, id, int64(after), limit))
				if diff := cmp.Diff(all[after:min(len(all), after+limit)], got); diff != "" {
					s.Errorf("after %d, limit %d: %s", after, limit, diff)
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
			// The same page again, and a shorter one of a late handler.
			s.noError(s.Store.SaveEvents(s.ctx, s.tenant, id, all[30:60]))
			s.noError(s.Store.SaveEvents(s.ctx, s.tenant, id, all[30:40]))
			check(0, 1000)
			// A longer one that overlaps the next page.
			s.noError(s.Store.SaveEvents(s.ctx, s.tenant, id, all[30:70]))
			check(0, 1000)
			check(65, 3)
		},
	})
}

// incompressible is text of n bytes that compresses to no less than three quarters.
func incompressible(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}
