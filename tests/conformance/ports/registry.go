package ports

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
	"github.com/lockstep-run/lockstep/shared/workflow/spec"
)

// Registry checks a port.Registry.
func Registry(t *testing.T, open Open) {
	definition := func(name, version string) workflow.PublishedDefinition {
		return workflow.PublishedDefinition{
			Ref: workflow.Ref{Package: "fleet", Name: name, Version: version}, Digest: "d-" + name + version,
			Source: []byte(`{"name":"` + name + `"}`), PublishedAt: baseTime, PublishedBy: "ann",
		}
	}
	runParallel(t, open, map[string]func(s *fixture){
		"a version is published once": func(s *fixture) {
			d := definition("upgrade", "1.0.0")
			_, err := s.Registry.Definition(s.ctx, s.tenant, d.Ref)
			s.wantCode(err, workflow.CodeNotFound)
			if old := must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, d)); old != nil {
				s.Errorf("found %+v", old)
			}
			other := d
			other.Digest, other.Source = "another", []byte("{}")
			if diff := cmp.Diff(&d, must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, other))); diff != "" {
				s.Error(diff)
			}
			if diff := cmp.Diff(&d, must[*workflow.PublishedDefinition](s)(s.Registry.Definition(s.ctx, s.tenant, d.Ref))); diff != "" {
				s.Error(diff)
			}
			_, err = s.Registry.Definition(s.ctx, s.tenant+"2", d.Ref)
			s.wantCode(err, workflow.CodeNotFound)
		},
		"a publication with a lost reply is recognised": func(s *fixture) {
			s.loseReply()
			if old := must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, definition("upgrade", "1.0.0"))); old != nil {
				s.Errorf("found %+v", old)
			}
		},
		"a definition of 256 KiB is stored": func(s *fixture) {
			d := definition("large", "1.0.0")
			d.Source = []byte(`"` + incompressible(256<<10) + `"`)
			must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, d))
			if diff := cmp.Diff(&d, must[*workflow.PublishedDefinition](s)(s.Registry.Definition(s.ctx, s.tenant, d.Ref))); diff != "" {
				s.Error("the definition was read back changed")
			}
		},
		"a definition can be archived and restored": func(s *fixture) {
			d := definition("old", "1.0.0")
			s.wantCode(s.Registry.SetArchived(s.ctx, s.tenant, d.Ref, true), workflow.CodeNotFound)
			must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, d))
			for _, archived := range []bool{true, true, false} {
				s.noError(s.Registry.SetArchived(s.ctx, s.tenant, d.Ref, archived))
				d.Archived = archived
				if diff := cmp.Diff(&d, must[*workflow.PublishedDefinition](s)(s.Registry.Definition(s.ctx, s.tenant, d.Ref))); diff != "" {
					s.Error(diff)
				}
			}
		},
		"a draft is published once, with the time and the publisher of that": func(s *fixture) {
			d := definition("new", "1.0.0")
			d.Draft = true
			if existing := must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, d)); existing != nil {
				s.Fatalf("there is %+v", existing)
			}
			if list := must[workflow.List[workflow.PublishedDefinition]](s)(s.Registry.DefinitionVersions(s.ctx, s.tenant, "fleet/new", workflow.Page{})); len(list.Items) != 1 || !list.Items[0].Draft {
				s.Errorf("listed as %+v", list.Items)
			}
			later := d
			later.Draft, later.PublishedAt, later.PublishedBy = false, baseTime.Add(time.Hour), "bob"
			if diff := cmp.Diff(&d, must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, later))); diff != "" {
				s.Errorf("what is stored: %s", diff)
			}
			s.noError(s.Registry.PublishDraft(s.ctx, s.tenant, later))
			again := later
			again.PublishedAt, again.PublishedBy = baseTime.Add(2*time.Hour), "cy"
			s.noError(s.Registry.PublishDraft(s.ctx, s.tenant, again))
			if diff := cmp.Diff(&later, must[*workflow.PublishedDefinition](s)(s.Registry.Definition(s.ctx, s.tenant, d.Ref))); diff != "" {
				s.Error(diff)
			}
		},
		"versions are listed in numeric order, names in text order": func(s *fixture) {
			for _, v := range []string{"10.0.0", "1.10.0", "1.9.0", "1.9.12", "1.9.2"} {
				must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, definition("upgrade", v)))
				must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, definition("upgrade-x", v)))
			}
			must[*workflow.PublishedDefinition](s)(s.Registry.PutDefinition(s.ctx, s.tenant, definition("a", "2.0.0")))
			list := func(name string, limit int) (all []string) {
				for page := (workflow.Page{Limit: limit}); ; {
					l := must[workflow.List[workflow.PublishedDefinition]](s)(s.Registry.DefinitionVersions(s.ctx, s.tenant, name, page))
					for _, d := range l.Items {
						if len(d.Source) != 0 || d.Digest == "" || !d.PublishedAt.Equal(baseTime) {
							s.Errorf("list entry %+v", d)
						}
						all = append(all, d.Ref.String())
					}
					if page.Token = l.NextToken; page.Token == "" {
						return all
					}
					if len(l.Items) != limit {
						s.Errorf("%d items on a page before the last, want %d", len(l.Items), limit)
					}
				}
			}
			upgrades := []string{"fleet/upgrade:1.9.0", "fleet/upgrade:1.9.2", "fleet/upgrade:1.9.12", "fleet/upgrade:1.10.0", "fleet/upgrade:10.0.0"}
			for _, limit := range []int{1, 2, 5, 100} {
				if diff := cmp.Diff(upgrades, list("fleet/upgrade", limit)); diff != "" {
					s.Error(diff)
				}
			}
			if all := list("", 3); len(all) != 11 || all[0] != "fleet/a:2.0.0" || all[1] != upgrades[0] || all[6] != "fleet/upgrade-x:1.9.0" {
				s.Errorf("all: %v", all)
			}
			if none := list("fleet/up", 3); len(none) != 0 {
				s.Errorf("the prefix of a name found %v", none)
			}
			_, err := s.Registry.DefinitionVersions(s.ctx, s.tenant, "", workflow.Page{Token: "***"})
			s.wantCode(err, workflow.CodeInvalid)
			_, err = s.Registry.DefinitionSources(s.ctx, s.tenant, workflow.Page{Token: "***"})
			s.wantCode(err, workflow.CodeInvalid)
			n := 0
			for page := (workflow.Page{Limit: 3}); ; {
				l := must[workflow.List[workflow.PublishedDefinition]](s)(s.Registry.DefinitionSources(s.ctx, s.tenant, page))
				for _, d := range l.Items {
					if diff := cmp.Diff(definition(d.Ref.Name, d.Ref.Version), d); diff != "" {
						s.Error(diff)
					}
					n++
				}
				if page.Token = l.NextToken; page.Token == "" {
					break
				}
			}
			if n != 11 {
				s.Errorf("%d definitions with their sources, want 11", n)
			}
		},
		"blocks are registered once and listed": func(s *fixture) {
			block := func(name, version string) workflow.Block {
				return workflow.Block{
					Package: "fleet", Name: name, Version: version, RunOn: "device", Idempotent: true, Reversible: true, Pool: "p",
					Timeout: workflow.Duration(90 * time.Second), ParameterSchema: []byte(`{"type":"object"}`),
					HTTP: &workflow.Endpoint{URL: "http://127.0.0.1:1/x", Timeout: workflow.Duration(time.Second), Headers: map[string]string{"A": "b"}},
				}
			}
			b := block("upgrade", "1.2.0")
			if old := must[*workflow.Block](s)(s.Registry.PutBlock(s.ctx, s.tenant, b)); old != nil {
				s.Errorf("found %+v", old)
			}
			other := b
			other.Pure = true
			if diff := cmp.Diff(&b, must[*workflow.Block](s)(s.Registry.PutBlock(s.ctx, s.tenant, other))); diff != "" {
				s.Error(diff)
			}
			for _, v := range []string{"1.10.0", "1.9.0"} {
				must[*workflow.Block](s)(s.Registry.PutBlock(s.ctx, s.tenant, block("upgrade", v)))
				must[*workflow.Block](s)(s.Registry.PutBlock(s.ctx, s.tenant, block("verify", v)))
			}
			want := []workflow.Block{b, block("upgrade", "1.9.0"), block("upgrade", "1.10.0")}
			if diff := cmp.Diff(want, must[[]workflow.Block](s)(s.Registry.BlockVersions(s.ctx, s.tenant, "fleet/upgrade"))); diff != "" {
				s.Error(diff)
			}
			if none := must[[]workflow.Block](s)(s.Registry.BlockVersions(s.ctx, s.tenant, "fleet/upg")); len(none) != 0 {
				s.Errorf("found %v", none)
			}
			first := must[workflow.List[workflow.Block]](s)(s.Registry.Blocks(s.ctx, s.tenant, workflow.Page{Limit: 4}))
			second := must[workflow.List[workflow.Block]](s)(s.Registry.Blocks(s.ctx, s.tenant, workflow.Page{Limit: 4, Token: first.NextToken}))
			if len(first.Items) != 4 || len(second.Items) != 1 || second.NextToken != "" || second.Items[0].Name != "verify" {
				s.Errorf("pages %+v and %+v", first, second)
			}
		},
		"a block is read by its exact version": func(s *fixture) {
			b := workflow.Block{Package: "fleet", Name: "read", Version: "1.2.0", Pool: "p", ResultSchema: []byte(`{"type":"object"}`)}
			_, err := s.Registry.Block(s.ctx, s.tenant, b.Ref())
			s.wantCode(err, workflow.CodeNotFound)
			must[*workflow.Block](s)(s.Registry.PutBlock(s.ctx, s.tenant, b))
			if diff := cmp.Diff(&b, must[*workflow.Block](s)(s.Registry.Block(s.ctx, s.tenant, b.Ref()))); diff != "" {
				s.Error(diff)
			}
			_, err = s.Registry.Block(s.ctx, s.tenant+"2", b.Ref())
			s.wantCode(err, workflow.CodeNotFound)
		},
		"a version index is replaced only as it was read": func(s *fixture) {
			const kind, name = workflow.DefinitionVersions, "fleet/upgrade"
			read := func() workflow.VersionIndex {
				s.Helper()
				return must[workflow.VersionIndex](s)(s.Registry.VersionIndex(s.ctx, s.tenant, kind, name))
			}
			put := func(index workflow.VersionIndex, want bool) {
				s.Helper()
				s.wantApplied(want)(s.Registry.PutVersionIndex(s.ctx, s.tenant, kind, name, index))
			}
			if got := read(); got.Revision != 0 || len(got.Versions) != 0 {
				s.Fatalf("an absent index is %+v", got)
			}
			first := workflow.VersionIndex{Versions: []workflow.IndexedVersion{{Version: "1.10.0"}, {Version: "1.9.0", Archived: true}}, Older: true}
			put(first, true)
			put(first, false)
			first.Revision = 1
			if diff := cmp.Diff(first, read()); diff != "" {
				s.Error(diff)
			}
			second := workflow.VersionIndex{Versions: []workflow.IndexedVersion{{Version: "2.0.0"}}, Revision: 1}
			put(second, true)
			put(first, false)
			second.Revision = 2
			if diff := cmp.Diff(second, read()); diff != "" {
				s.Error(diff)
			}
			// The reply to a write is lost: the caller cannot know, and reads what it wrote.
			s.loseReply()
			_, _ = s.Registry.PutVersionIndex(s.ctx, s.tenant, kind, name, second)
			if second.Revision = 3; !cmp.Equal(second, read()) {
				s.Errorf("after a lost reply: %+v", read())
			}
			for _, other := range []struct {
				tenant string
				kind   workflow.VersionKind
				name   string
			}{{s.tenant + "2", kind, name}, {s.tenant, workflow.BlockVersions, name}, {s.tenant, kind, "fleet/upgrade-x"}} {
				if got := must[workflow.VersionIndex](s)(s.Registry.VersionIndex(s.ctx, other.tenant, other.kind, other.name)); got.Revision != 0 {
					s.Errorf("%+v has the index %+v", other, got)
				}
			}
		},
		"the revision of the versions of a tenant grows": func(s *fixture) {
			for n := range int64(3) {
				for tenant, want := range map[string]int64{s.tenant: n, s.tenant + "2": 0} {
					if got := must[int64](s)(s.Registry.VersionsRevision(s.ctx, tenant)); got != want {
						s.Errorf("%s: %d, want %d", tenant, got, want)
					}
				}
				if err := s.Registry.RaiseVersionsRevision(s.ctx, s.tenant); err != nil {
					s.Error(err)
				}
			}
		},
		"one of many concurrent writes of a version index wins": func(s *fixture) {
			for revision := range int64(2) {
				s.oneWinner(func(i int) (bool, error) {
					index := workflow.VersionIndex{Versions: []workflow.IndexedVersion{{Version: "1.0." + strconv.Itoa(i)}}, Revision: revision}
					return s.Registry.PutVersionIndex(s.ctx, s.tenant, workflow.BlockVersions, "fleet/upgrade", index)
				})
			}
		},
		"an idempotency key is bound until it expires": func(s *fixture) {
			bind := func(key string, want workflow.IdempotencyRecord, now time.Time, fresh bool, bound workflow.IdempotencyRecord) {
				s.Helper()
				got, isFresh, err := s.Registry.BindIdempotencyKey(s.ctx, s.tenant, key, want, now)
				s.noError(err)
				if isFresh != fresh || !cmp.Equal(got, bound) {
					s.Errorf("bound %+v, fresh %v; want %+v, %v", got, isFresh, bound, fresh)
				}
			}
			check := func(key string, now time.Time, want workflow.IdempotencyRecord) {
				s.Helper()
				if got := must[workflow.IdempotencyRecord](s)(s.Registry.IdempotencyRecord(s.ctx, s.tenant, key, now)); !cmp.Equal(got, want) {
					s.Errorf("bound to %+v, want %+v", got, want)
				}
			}
			day := 24 * time.Hour
			a := workflow.IdempotencyRecord{Execution: newID(), Digest: "a", ExpiresAt: baseTime.Add(day)}
			b := workflow.IdempotencyRecord{Execution: newID(), Digest: "b", ExpiresAt: baseTime.Add(3 * day)}
			key := `odd # key / with "everything"`
			check(key, baseTime, workflow.IdempotencyRecord{})
			bind(key, a, baseTime, true, a)
			bind(key, b, baseTime.Add(day-time.Millisecond), false, a)
			check(key, baseTime, a)
			bind("another", b, baseTime, true, b)
			check(key, baseTime.Add(day), workflow.IdempotencyRecord{})
			bind(key, b, baseTime.Add(day), true, b)
			bind(key, a, baseTime.Add(day), false, b)
			s.loseReply()
			bind("lost", a, baseTime, true, a)
		},
		"an idempotency key is moved from what it is bound to": func(s *fixture) {
			record := workflow.IdempotencyRecord{Execution: "a", Digest: "d", ExpiresAt: baseTime.Add(time.Hour)}
			move := func(key, from, to string, at time.Time, ok bool) {
				s.Helper()
				s.wantApplied(ok)(s.Registry.MoveIdempotencyKey(s.ctx, s.tenant, key, from, to, at))
			}
			move("k", "a", "b", baseTime, false)
			if _, fresh, err := s.Registry.BindIdempotencyKey(s.ctx, s.tenant, "k", record, baseTime); err != nil || !fresh {
				s.Fatal(fresh, err)
			}
			move("k", "x", "b", baseTime, false)
			move("k", "a", "b", record.ExpiresAt, false)
			move("k", "a", "b", baseTime, true)
			move("k", "a", "b", baseTime, true) // its reply was lost
			move("k", "a", "c", baseTime, false)
			s.loseReply()
			move("k", "b", "c", baseTime, true)
			record.Execution = "c"
			if got := must[workflow.IdempotencyRecord](s)(s.Registry.IdempotencyRecord(s.ctx, s.tenant, "k", baseTime)); !cmp.Equal(got, record) {
				s.Errorf("bound to %+v", got)
			}
		},
		"a subscription is written at the revision that was read": func(s *fixture) {
			one := workflow.Subscription{Name: "b", ID: "1", To: workflow.SubscriptionTarget{URL: "https://a.example", Secret: []byte{0, 1, 255}}, States: []string{"FAILED_UNSAFE"}, Labels: map[string]string{"a": "b"}, CreatedAt: baseTime}
			put := func(sub workflow.Subscription, ok bool) {
				s.Helper()
				s.wantApplied(ok)(s.Registry.PutSubscription(s.ctx, s.tenant, sub))
			}
			put(one, true)
			put(one, true) // its reply was lost
			other := one
			other.ID = "2"
			put(other, false)
			other.Name = "a"
			put(other, true)
			one.Revision, one.Since = 1, baseTime.Add(time.Minute)
			s.loseReply()
			put(one, true)
			one.Revision, one.Suspended = 2, &workflow.SubscriptionPause{At: baseTime, Reason: "<no>"}
			put(one, true)
			other.Revision, other.RemovedAt = 1, baseTime
			put(other, true)
			one.Revision, other.Revision = 3, 2
			want := []workflow.Subscription{other, one}
			if got := must[[]workflow.Subscription](s)(s.Registry.Subscriptions(s.ctx, s.tenant)); !cmp.Equal(got, want) {
				s.Errorf("%s", cmp.Diff(want, got))
			}
			if got := must[[]workflow.Subscription](s)(s.Registry.Subscriptions(s.ctx, s.tenant+"x")); len(got) != 0 {
				s.Errorf("another tenant has %v", got)
			}
		},
		"a trigger is written at the revision that was read, and its calls under their keys": func(s *fixture) {
			one := spec.PublishedTrigger{Name: "b", Workflow: workflow.Ref{Package: "p", Name: "w", Version: "1.0.0"}, Trigger: &spec.Trigger{Name: "b", Parameters: json.RawMessage(`{"a":"<b>"}`), Rate: workflow.Rate{Count: 7, Per: time.Minute}}}
			put := func(t spec.PublishedTrigger, ok bool) {
				s.Helper()
				s.wantApplied(ok)(s.Registry.PutTrigger(s.ctx, s.tenant, t))
			}
			if got := must[spec.PublishedTrigger](s)(s.Registry.Trigger(s.ctx, s.tenant, "b")); !cmp.Equal(got, spec.PublishedTrigger{Name: "b"}) {
				s.Errorf("%+v", got)
			}
			put(one, true)
			put(one, true) // its reply was lost
			other := one
			other.Workflow.Name = "v"
			put(other, false)
			other.Name = "a"
			s.loseReply()
			put(other, true)
			one.Revision, one.Trigger = 1, nil
			put(one, true)
			put(other, true) // as it is
			one.Revision, other.Revision = 2, 1
			if got := must[spec.PublishedTrigger](s)(s.Registry.Trigger(s.ctx, s.tenant, "b")); !cmp.Equal(got, one) {
				s.Errorf("%s", cmp.Diff(one, got))
			}
			if got, want := must[[]spec.PublishedTrigger](s)(s.Registry.Triggers(s.ctx, s.tenant)), []spec.PublishedTrigger{other, one}; !cmp.Equal(got, want) {
				s.Errorf("%s", cmp.Diff(want, got))
			}
			older, newer := workflow.TriggerCall{At: baseTime, Status: 401, Code: "unauthorized"}, workflow.TriggerCall{At: baseTime.Add(time.Second), Status: 202, Execution: "x"}
			for key, call := range map[string]workflow.TriggerCall{"call-001": newer, "call-000": {At: baseTime, Status: 200}, "refused-01": older} {
				if err := s.Registry.PutTriggerCall(s.ctx, s.tenant, "b", key, call); err != nil {
					s.Fatal(err)
				}
			}
			if err := s.Registry.PutTriggerCall(s.ctx, s.tenant, "b", "call-000", older); err != nil { // in its place
				s.Fatal(err)
			}
			if got, want := must[[]workflow.TriggerCall](s)(s.Registry.TriggerCalls(s.ctx, s.tenant, "b")), []workflow.TriggerCall{newer, older, older}; !cmp.Equal(got, want) {
				s.Errorf("%s", cmp.Diff(want, got))
			}
			if got := must[[]workflow.TriggerCall](s)(s.Registry.TriggerCalls(s.ctx, s.tenant, "a")); len(got) != 0 {
				s.Errorf("another has %v", got)
			}
		},
		"the newest deliveries are kept, each where it was before": func(s *fixture) {
			put := func(id string, after time.Duration, attempts int) workflow.DeliveryAttempt {
				s.Helper()
				a := workflow.DeliveryAttempt{At: baseTime.Add(after), Delivery: id, Execution: "x", Attempts: attempts, Status: 503, Error: "no <b>"}
				if err := s.Registry.PutDeliveryAttempt(s.ctx, s.tenant, "b", a); err != nil {
					s.Fatal(err)
				}
				return a
			}
			put("one", 0, 1)
			two := put("two", time.Second, 1)
			one := put("one", time.Minute, 2)
			if got, want := must[[]workflow.DeliveryAttempt](s)(s.Registry.DeliveryAttempts(s.ctx, s.tenant, "b")), []workflow.DeliveryAttempt{one, two}; !cmp.Equal(got, want) {
				s.Errorf("%s", cmp.Diff(want, got))
			}
			if got := must[[]workflow.DeliveryAttempt](s)(s.Registry.DeliveryAttempts(s.ctx, s.tenant, "a")); len(got) != 0 {
				s.Errorf("another has %v", got)
			}
			for i := range 400 {
				put(fmt.Sprint("many", i), time.Hour, 1)
			}
			if got := must[[]workflow.DeliveryAttempt](s)(s.Registry.DeliveryAttempts(s.ctx, s.tenant, "b")); len(got) > workflow.MaxDeliveryAttempts || len(got) < workflow.MaxDeliveryAttempts/2 {
				s.Errorf("%d are kept", len(got))
			}
		},
		"a rate lets so many pass, and says when the next one may": func(s *fixture) {
			rate := workflow.Rate{Count: 2, Per: time.Minute}
			take := func(at time.Duration, sequence int64, wait time.Duration, remaining int, reset time.Duration) {
				s.Helper()
				got, err := s.Registry.TakeRate(s.ctx, s.tenant, "r", rate, 0, baseTime.Add(at))
				want := workflow.RateUse{Rate: rate, Sequence: sequence, Wait: wait, Remaining: remaining, Reset: reset}
				if err != nil || got != want {
					s.Errorf("after %s: %+v, %v; want %+v", at, got, err, want)
				}
			}
			take(0, 1, 0, 1, 30*time.Second)
			take(0, 2, 0, 0, 30*time.Second)
			take(0, 0, 30*time.Second, 0, 30*time.Second)
			take(29*time.Second, 0, time.Second, 0, time.Second)
			take(30*time.Second, 3, 0, 0, 30*time.Second)
			take(30*time.Second, 0, 30*time.Second, 0, 30*time.Second)
			take(2*time.Hour, 4, 0, 1, 30*time.Second)
			take(2*time.Hour+10*time.Second, 5, 0, 0, 20*time.Second)
			take(2*time.Hour+10*time.Second, 0, 20*time.Second, 0, 20*time.Second)
			if use, err := s.Registry.TakeRate(s.ctx, s.tenant, "another", rate, 0, baseTime); use.Wait != 0 || err != nil {
				s.Errorf("another rate waits %s, %v", use.Wait, err)
			}
		},
		"of a rate that has nothing left, one is taken for the time when there is again": func(s *fixture) {
			rate := workflow.Rate{Count: 2, Per: time.Minute}
			take := func(at, within time.Duration, sequence int64, wait time.Duration) {
				s.Helper()
				use, err := s.Registry.TakeRate(s.ctx, s.tenant, "r", rate, within, baseTime.Add(at))
				if err != nil || use.Sequence != sequence || use.Wait != wait {
					s.Errorf("after %s within %s: %+v, %v; want %d, %s", at, within, use, err, sequence, wait)
				}
			}
			take(0, time.Minute, 1, 0)
			take(0, time.Minute, 2, 0)
			take(0, time.Minute, 3, 30*time.Second)
			take(0, time.Minute, 4, time.Minute)
			take(0, time.Minute, 0, 90*time.Second)
			take(10*time.Second, 0, 0, 80*time.Second)
			take(10*time.Second, 80*time.Second, 5, 80*time.Second)
			take(2*time.Hour, 0, 6, 0)
		},
		"a business key is taken at the revision that was read": func(s *fixture) {
			check := func(name, key string, want workflow.BusinessKey) {
				s.Helper()
				if got := must[workflow.BusinessKey](s)(s.Registry.BusinessKey(s.ctx, s.tenant, name, key)); got != want {
					s.Errorf("%s %s is %+v, want %+v", name, key, got, want)
				}
			}
			take := func(execution string, seen int64, ok bool) {
				s.Helper()
				s.wantApplied(ok)(s.Registry.TakeBusinessKey(s.ctx, s.tenant, "shop/order", "k:7", seen, execution))
			}
			check("shop/order", "k:7", workflow.BusinessKey{})
			take("a", 1, false)
			take("a", 0, true)
			take("a", 0, true) // its reply was lost
			take("b", 0, false)
			check("shop/order", "k:7", workflow.BusinessKey{Execution: "a", Revision: 1})
			take("a", 1, true) // it is tried again
			take("b", 1, false)
			s.loseReply()
			take("b", 2, true)
			check("shop/order", "k:7", workflow.BusinessKey{Execution: "b", Revision: 3})
			check("shop/order", "k", workflow.BusinessKey{})
			check("shop/other", "k:7", workflow.BusinessKey{})
		},
		"one of many concurrent executions takes a business key": func(s *fixture) {
			for seen := range int64(2) {
				s.oneWinner(func(i int) (bool, error) {
					return s.Registry.TakeBusinessKey(s.ctx, s.tenant, "shop/order", "k", seen, strconv.Itoa(i))
				})
			}
		},
		"one of many concurrent requests binds a key": func(s *fixture) {
			ids := make([]string, racers)
			got := make([]workflow.IdempotencyRecord, racers)
			won := s.oneWinner(func(i int) (bool, error) {
				ids[i] = newID()
				bound, fresh, err := s.Registry.BindIdempotencyKey(s.ctx, s.tenant, "k", workflow.IdempotencyRecord{Execution: ids[i], ExpiresAt: baseTime.Add(time.Hour)}, baseTime)
				got[i] = bound
				return fresh, err
			})
			for i, b := range got {
				if b.Execution != ids[won] {
					s.Errorf("request %d got %s, want %s", i, b.Execution, ids[won])
				}
			}
		},
	})
}
