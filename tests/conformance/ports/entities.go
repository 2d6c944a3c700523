package ports

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-run/lockstep/shared/workflow"
	sm "github.com/lockstep-run/lockstep/statemachines"
)

// Entities checks the inventory of a port.Registry.
func Entities(t *testing.T, open Open) {
	device := func(id string) workflow.Entity {
		return workflow.Entity{
			Type: "device", ID: id, Attributes: json.RawMessage(`{"site":"b"}`), Groups: []string{"core", "access"}, Version: 1,
		}
	}
	runParallel(t, open, map[string]func(s *fixture){
		"an upsert replaces attributes and groups": func(s *fixture) {
			e := device("sw-007")
			read := func() workflow.Entity {
				return must[map[workflow.EntityKey]workflow.Entity](s)(s.Registry.Entities(s.ctx, s.tenant, []workflow.EntityKey{e.Key(), {Type: "device", ID: "none"}}, true))[e.Key()]
			}
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e}))
			if diff := cmp.Diff(e, read()); diff != "" {
				s.Error(diff)
			}
			e.Attributes, e.Groups, e.Version, e.Token = json.RawMessage(`{"a":1}`), nil, 40, 50
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e}))
			e.Version, e.Token = 2, 0 // the store counts versions; only an execution sets the token
			if diff := cmp.Diff(e, read()); diff != "" {
				s.Error(diff)
			}
			twice := []workflow.Entity{device("twice"), device("twice")}
			twice[1].Groups = []string{"last"}
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, twice))
			k := twice[0].Key()
			if got := must[map[workflow.EntityKey]workflow.Entity](s)(s.Registry.Entities(s.ctx, s.tenant, []workflow.EntityKey{k}, true))[k]; got.Groups[0] != "last" {
				s.Errorf("of two with one key, the first was stored: %+v", got)
			}
			e.Attributes = json.RawMessage(`"` + incompressible(900<<10) + `"`)
			_, err := s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e})
			s.wantCode(err, workflow.CodeTooLarge)
		},
		"an entity is replaced only at the version that was read": func(s *fixture) {
			e := device("sw-007")
			read := func() workflow.Entity {
				return must[map[workflow.EntityKey]workflow.Entity](s)(s.Registry.Entities(s.ctx, s.tenant, []workflow.EntityKey{e.Key()}, true))[e.Key()]
			}
			replace := func(e workflow.Entity, version int64) (bool, error) {
				ok, _, err := s.Registry.ReplaceEntity(s.ctx, s.tenant, e, version)
				return ok, err
			}
			s.wantApplied(false)(replace(e, 0))
			s.wantApplied(false)(replace(e, 1))
			if got := read(); got.ID != "" {
				s.Errorf("replacing created %+v", got)
			}
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e}))
			next := e
			next.Attributes, next.Groups, next.Token, next.Version = json.RawMessage(`{"a":1}`), nil, 50, 99
			s.wantApplied(true)(replace(next, 1))
			next.Version = 2
			if diff := cmp.Diff(next, read()); diff != "" {
				s.Error(diff)
			}
			// An import changes the version and keeps the token; a writer that read the
			// version before must read again.
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e}))
			late := next
			late.Token = 51
			s.wantApplied(false)(replace(late, 2))
			if got := read(); got.Token != 50 || got.Version != 3 || string(got.Attributes) != string(e.Attributes) {
				s.Errorf("a late write changed the entity: %+v", got)
			}
			s.loseReply()
			s.wantApplied(true)(replace(late, 3))
			other := late
			other.Token = 52
			s.wantApplied(false)(replace(other, 3))
			s.oneWinner(func(i int) (bool, error) {
				mine := late
				mine.Token = int64(60 + i)
				return replace(mine, 4)
			})
			if !s.watch(e.Key(), "x") {
				s.Error("the watcher was rejected")
			}
			late.Version = 0
			ok, watchers, err := s.Registry.ReplaceEntity(s.ctx, s.tenant, late, 5)
			s.wantApplied(true)(ok, err)
			if diff := cmp.Diff([]string{"x"}, watchers); diff != "" {
				s.Error(diff)
			}
			_, watchers, err = s.Registry.ReplaceEntity(s.ctx, s.tenant, late, 6)
			if err != nil || len(watchers) != 0 {
				s.Errorf("watchers were returned twice: %v %v", watchers, err)
			}
			late.Attributes = json.RawMessage(`"` + incompressible(900<<10) + `"`)
			_, err = replace(late, 7)
			s.wantCode(err, workflow.CodeTooLarge)
		},
		"entities are written as they were read, or created": func(s *fixture) {
			e := device("sw-007")
			write := func(e workflow.Entity, seen int64) (bool, error) {
				ok, _, err := s.Registry.WriteEntities(s.ctx, s.tenant, []workflow.EntityWrite{{Entity: e, SeenVersion: seen}})
				return len(ok) == 1 && ok[0], err
			}
			s.wantApplied(false)(write(e, 1))
			s.wantApplied(true)(write(e, 0))
			s.wantApplied(false)(write(e, 0))
			next := e
			next.Attributes, next.Groups, next.Version, next.Token = json.RawMessage(`{"a":1}`), nil, 90, 91
			s.wantApplied(false)(write(next, 2))
			if diff := cmp.Diff(e, s.entity(e.Key())); diff != "" {
				s.Error(diff)
			}
			s.wantApplied(true)(write(next, 1))
			next.Version, next.Token = 2, 0
			if diff := cmp.Diff(next, s.entity(e.Key())); diff != "" {
				s.Error(diff)
			}
			s.oneWinner(func(int) (bool, error) { return write(e, 2) })
			if !s.watch(e.Key(), "x") {
				s.Error("the watcher was rejected")
			}
			both := []workflow.EntityWrite{{Entity: device("other"), SeenVersion: 4}, {Entity: e, SeenVersion: 3}, {Entity: device("third")}}
			ok, watchers, err := s.Registry.WriteEntities(s.ctx, s.tenant, both)
			s.noError(err)
			if diff := cmp.Diff([]bool{false, true, true}, ok) + cmp.Diff([]string{"x"}, watchers); diff != "" {
				s.Error(diff)
			}
			types := must[workflow.List[string]](s)(s.Registry.EntityTypes(s.ctx, s.tenant, workflow.Page{}))
			if diff := cmp.Diff([]string{"device"}, types.Items); diff != "" {
				s.Error(diff)
			}
			e.Attributes = json.RawMessage(`"` + incompressible(900<<10) + `"`)
			_, err = write(e, 4)
			s.wantCode(err, workflow.CodeTooLarge)
		},
		"a deleted entity is gone, and one of its key goes on with its version and token": func(s *fixture) {
			e, until := device("sw-007"), time.Now().Add(time.Hour)
			remove := func(seen int64) (bool, error) {
				ok, _, err := s.Registry.DeleteEntity(s.ctx, s.tenant, e.Key(), seen, until)
				return ok, err
			}
			s.wantApplied(false)(remove(0))
			s.wantApplied(false)(remove(1))
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e, device("stays")}))
			held := e
			held.Token = 50
			ok, _, err := s.Registry.ReplaceEntity(s.ctx, s.tenant, held, 1)
			s.wantApplied(true)(ok, err)
			s.wantApplied(false)(remove(1))
			if !s.watch(e.Key(), "x") {
				s.Error("the watcher was rejected")
			}
			ok, watchers, err := s.Registry.DeleteEntity(s.ctx, s.tenant, e.Key(), 2, until)
			s.wantApplied(true)(ok, err)
			if diff := cmp.Diff([]string{"x"}, watchers); diff != "" {
				s.Error(diff)
			}
			s.wantApplied(true)(remove(2)) // the same deletion, whose reply was lost
			s.wantApplied(false)(remove(3))
			if got := s.entity(e.Key()); got.ID != "" {
				s.Errorf("it is still there: %+v", got)
			}
			list := must[workflow.List[workflow.Entity]](s)(s.Registry.EntitiesOf(s.ctx, s.tenant, "device", workflow.Page{}))
			if len(list.Items) != 1 || list.Items[0].ID != "stays" {
				s.Errorf("listed %+v", list)
			}
			if s.watch(e.Key(), "y") {
				s.Error("a deleted entity is watched")
			}
			late := held
			late.Token = 60
			ok, _, err = s.Registry.ReplaceEntity(s.ctx, s.tenant, late, 2) // by who has read it before
			s.wantApplied(false)(ok, err)
			written, _, err := s.Registry.WriteEntities(s.ctx, s.tenant, []workflow.EntityWrite{{Entity: e, SeenVersion: 2}})
			s.wantApplied(false)(written[0], err)
			written, _, err = s.Registry.WriteEntities(s.ctx, s.tenant, []workflow.EntityWrite{{Entity: e}})
			s.wantApplied(true)(written[0], err)
			again := e
			again.Version, again.Token = 4, 50
			if diff := cmp.Diff(again, s.entity(e.Key())); diff != "" {
				s.Error(diff)
			}
			s.wantApplied(true)(remove(4))
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e}))
			if again.Version = 6; cmp.Diff(again, s.entity(e.Key())) != "" {
				s.Error(cmp.Diff(again, s.entity(e.Key())))
			}
			s.loseReply()
			s.wantApplied(true)(remove(6))
		},
		"an end is stored once and listed by day and workflow": func(s *fixture) {
			day := workflow.EndDay(baseTime)
			end := func(name string, sequence int64, state sm.ExecutionState) workflow.End {
				ref := must[workflow.Ref](s)(workflow.ParseRef(name))
				return workflow.End{Workflow: ref, Execution: "x", Sequence: sequence, At: baseTime, State: state, Took: 1500 * time.Millisecond}
			}
			list := func(day, name string, page workflow.Page) workflow.List[workflow.End] {
				return must[workflow.List[workflow.End]](s)(s.Registry.Ends(s.ctx, s.tenant, day, name, page))
			}
			first, second, other := end("p/w:1.0.0", 7, sm.ExecutionFailedSafe), end("p/w:1.0.0", 9, sm.ExecutionCompleted), end("p/wide:1.0.0", 7, sm.ExecutionCancelled)
			second.Partial = true
			for _, e := range []workflow.End{first, second, other} {
				s.noError(s.Registry.PutEnd(s.ctx, s.tenant, e))
			}
			s.loseReply()
			s.noError(s.Registry.PutEnd(s.ctx, s.tenant, first))
			again := first
			again.State, again.Took = sm.ExecutionCompleted, time.Hour
			s.noError(s.Registry.PutEnd(s.ctx, s.tenant, again))
			midnight := baseTime.UTC().Truncate(24 * time.Hour)
			first.At, second.At, other.At = midnight, midnight, midnight
			for name, want := range map[string][]workflow.End{"": {first, second, other}, "p/w": {first, second}, "p/wide": {other}, "p/none": nil} {
				if diff := cmp.Diff(want, list(day, name, workflow.Page{}).Items); diff != "" {
					s.Errorf("%q: %s", name, diff)
				}
			}
			page := list(day, "p/w", workflow.Page{Limit: 1})
			page = list(day, "p/w", workflow.Page{Limit: 1, Token: page.NextToken})
			if diff := cmp.Diff([]workflow.End{second}, page.Items); diff != "" || page.NextToken != "" {
				s.Error(diff, page.NextToken)
			}
			if none := list(workflow.EndDay(baseTime.Add(24*time.Hour)), "", workflow.Page{}); len(none.Items) > 0 {
				s.Errorf("%+v", none)
			}
		},
		"an audit entry is stored once and gets one status": func(s *fixture) {
			e := workflow.AuditEntry{ID: workflow.AuditID(baseTime, "1"), At: baseTime, Actor: "ann", Verb: "cancelExecution", Target: "/x", Reason: "r"}
			month := baseTime.UTC().Format("2006-01")
			list := func() []workflow.AuditEntry {
				return must[workflow.List[workflow.AuditEntry]](s)(s.Registry.AuditEntries(s.ctx, s.tenant, month, baseTime, baseTime, workflow.Page{})).Items
			}
			s.noError(s.Registry.EndAudit(s.ctx, s.tenant, e, 200))
			if got := list(); len(got) > 0 {
				s.Errorf("a status has made an entry: %+v", got)
			}
			s.loseReply()
			s.noError(s.Registry.BeginAudit(s.ctx, s.tenant, e))
			other := e
			other.Actor = "bob"
			s.noError(s.Registry.BeginAudit(s.ctx, s.tenant, other))
			if diff := cmp.Diff([]workflow.AuditEntry{e}, list()); diff != "" {
				s.Error(diff)
			}
			for _, status := range []int{202, 500} {
				s.noError(s.Registry.EndAudit(s.ctx, s.tenant, e, status))
			}
			later := e
			later.ID = workflow.AuditID(baseTime, "2")
			s.noError(s.Registry.BeginAudit(s.ctx, s.tenant, later))
			accepted := 202
			e.Status = &accepted
			if diff := cmp.Diff([]workflow.AuditEntry{later, e}, list()); diff != "" {
				s.Error(diff)
			}
			page := must[workflow.List[workflow.AuditEntry]](s)(s.Registry.AuditEntries(s.ctx, s.tenant, month, baseTime, baseTime, workflow.Page{Limit: 1}))
			page = must[workflow.List[workflow.AuditEntry]](s)(s.Registry.AuditEntries(s.ctx, s.tenant, month, baseTime, baseTime, workflow.Page{Limit: 1, Token: page.NextToken}))
			if diff := cmp.Diff([]workflow.AuditEntry{e}, page.Items); diff != "" || page.NextToken != "" {
				s.Error(diff, page.NextToken)
			}
			if none := must[workflow.List[workflow.AuditEntry]](s)(s.Registry.AuditEntries(s.ctx, s.tenant, "1999-01", baseTime, baseTime, workflow.Page{})); len(none.Items) > 0 {
				s.Errorf("%+v", none)
			}
			for _, at := range [][2]time.Time{{baseTime.Add(time.Millisecond), baseTime.Add(time.Hour)}, {baseTime.Add(-time.Hour), baseTime.Add(-2 * time.Millisecond)}, {baseTime, baseTime.Add(-time.Hour)}} {
				if none := must[workflow.List[workflow.AuditEntry]](s)(s.Registry.AuditEntries(s.ctx, s.tenant, month, at[0], at[1], workflow.Page{})); len(none.Items) > 0 {
					s.Errorf("from %s to %s: %+v", at[0], at[1], none)
				}
			}
		},
		"a mark of a deletion is there until the entity is written": func(s *fixture) {
			e := device("sw-007")
			mark := func(seen int64) (bool, error) {
				return s.Registry.MarkDeletion(s.ctx, s.tenant, e.Key(), seen)
			}
			want := func(version int64, marked bool) {
				s.Helper()
				want := e
				want.Version, want.Deleting = version, marked
				if diff := cmp.Diff(want, s.entity(e.Key())); diff != "" {
					s.Error(diff)
				}
			}
			s.wantApplied(false)(mark(0))
			s.wantApplied(false)(mark(1))
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e}))
			if !s.watch(e.Key(), "x") {
				s.Error("the watcher was rejected")
			}
			s.wantApplied(false)(mark(2))
			s.loseReply()
			s.wantApplied(true)(mark(1))
			s.wantApplied(true)(mark(1))
			want(1, true)
			written, watchers, err := s.Registry.WriteEntities(s.ctx, s.tenant, []workflow.EntityWrite{{Entity: s.entity(e.Key()), SeenVersion: 1}})
			s.wantApplied(true)(written[0], err)
			if diff := cmp.Diff([]string{"x"}, watchers); diff != "" {
				s.Error(diff)
			}
			want(2, false)
			ok, _, err := s.Registry.DeleteEntity(s.ctx, s.tenant, e.Key(), 1, time.Now().Add(time.Hour))
			s.wantApplied(false)(ok, err)
			s.wantApplied(true)(mark(2))
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e}))
			want(3, false)
			s.wantApplied(true)(mark(3))
			ok, _, err = s.Registry.ReplaceEntity(s.ctx, s.tenant, e, 3)
			s.wantApplied(true)(ok, err)
			want(4, false)
			s.wantApplied(true)(mark(4))
			ok, _, err = s.Registry.DeleteEntity(s.ctx, s.tenant, e.Key(), 4, time.Now().Add(time.Hour))
			s.wantApplied(true)(ok, err)
			s.wantApplied(false)(mark(4))
			s.wantApplied(false)(mark(5))
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{e}))
			want(6, false)
		},
		"many entities are imported, read and listed by id": func(s *fixture) {
			var all []workflow.Entity
			var keys []workflow.EntityKey
			for i := range 230 {
				all = append(all, device(fmt.Sprintf("sw-%03d", i)))
				keys = append(keys, all[i].Key())
			}
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, all))
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{{Type: "device2", ID: "x"}}))
			got := must[map[workflow.EntityKey]workflow.Entity](s)(s.Registry.Entities(s.ctx, s.tenant, append(keys, keys[0], workflow.EntityKey{Type: "device", ID: "x"}), false))
			if len(got) != len(all) {
				s.Errorf("%d read, want %d", len(got), len(all))
			}
			for _, limit := range []int{1, 7, 100, 229, 230, 1000, 0} {
				var listed []workflow.Entity
				page := workflow.Page{Limit: limit}
				for {
					l := must[workflow.List[workflow.Entity]](s)(s.Registry.EntitiesOf(s.ctx, s.tenant, "device", page))
					listed = append(listed, l.Items...)
					if page.Token = l.NextToken; page.Token == "" || limit == 1 && len(listed) == 20 {
						break
					}
				}
				want := all
				if limit == 1 {
					want = all[:20]
				}
				if diff := cmp.Diff(want, listed); diff != "" {
					s.Errorf("in pages of %d: %s", limit, diff)
				}
			}
			for _, limit := range []int{0, 1} {
				var types []string
				for page := (workflow.Page{Limit: limit}); ; {
					l := must[workflow.List[string]](s)(s.Registry.EntityTypes(s.ctx, s.tenant, page))
					types = append(types, l.Items...)
					if page.Token = l.NextToken; page.Token == "" {
						break
					}
				}
				if diff := cmp.Diff([]string{"device", "device2"}, types); diff != "" {
					s.Errorf("types in pages of %d: %s", limit, diff)
				}
			}
			none := must[workflow.List[workflow.Entity]](s)(s.Registry.EntitiesOf(s.ctx, s.tenant, "nothing", workflow.Page{}))
			if len(none.Items) != 0 || none.NextToken != "" {
				s.Errorf("found %+v", none)
			}
		},
		"a change returns each watcher once": func(s *fixture) {
			key := workflow.EntityKey{Type: "device", ID: "a"}
			if s.watch(key, "x") {
				s.Error("a watcher was added to an entity that does not exist")
			}
			if got := s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{device("a"), device("b"), device("c")})); len(got) != 0 {
				s.Errorf("watchers %v, want none", got)
			}
			for _, w := range []struct{ id, execution string }{{"a", "x"}, {"a", "x"}, {"a", "y"}, {"b", "x"}, {"c", "z"}} {
				if !s.watch(workflow.EntityKey{Type: "device", ID: w.id}, w.execution) {
					s.Errorf("the watcher of %s was rejected", w.id)
				}
			}
			got := must[map[workflow.EntityKey]workflow.Entity](s)(s.Registry.Entities(s.ctx, s.tenant, []workflow.EntityKey{key}, true))[key]
			if diff := cmp.Diff(device("a"), got); diff != "" {
				s.Error("a watcher changed the entity: " + diff)
			}
			if diff := cmp.Diff([]string{"x", "y"}, s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{device("a"), device("b")}))); diff != "" {
				s.Error(diff)
			}
			if got := s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{device("a"), device("b")})); len(got) != 0 {
				s.Errorf("watchers %v were returned again", got)
			}
		},
		"an entity has at most 64 watchers": func(s *fixture) {
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{device("a")}))
			for i := range 70 {
				if !s.watch(workflow.EntityKey{Type: "device", ID: "a"}, fmt.Sprint(i)) {
					s.Errorf("watcher %d was rejected", i)
				}
			}
			if got := s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, []workflow.Entity{device("a")})); len(got) != 64 {
				s.Errorf("%d watchers, want 64", len(got))
			}
		},
		"a page is limited by its size in bytes": func(s *fixture) {
			var heavy []workflow.Entity
			for i := range 8 {
				e := device(fmt.Sprint(i))
				e.Attributes = json.RawMessage(`"` + incompressible(250<<10) + `"`)
				heavy = append(heavy, e)
			}
			s.mustPut(s.Registry.PutEntities(s.ctx, s.tenant, heavy))
			n, pages := 0, 0
			for page := (workflow.Page{Limit: 100}); ; pages++ {
				l := must[workflow.List[workflow.Entity]](s)(s.Registry.EntitiesOf(s.ctx, s.tenant, "device", page))
				n += len(l.Items)
				if page.Token = l.NextToken; page.Token == "" {
					break
				}
			}
			if n != 8 || pages < 1 {
				s.Errorf("%d entities on %d pages", n, pages+1)
			}
		},
	})
}

// entity is the entity with a key, the zero entity if there is none.
func (s *fixture) entity(key workflow.EntityKey) workflow.Entity {
	s.Helper()
	return must[map[workflow.EntityKey]workflow.Entity](s)(s.Registry.Entities(s.ctx, s.tenant, []workflow.EntityKey{key}, true))[key]
}

// mustPut returns the watchers of a write of entities.
func (s *fixture) mustPut(watchers []string, err error) []string {
	s.Helper()
	s.noError(err)
	return watchers
}

func (s *fixture) watch(key workflow.EntityKey, execution string) bool {
	s.Helper()
	return must[bool](s)(s.Registry.AddWatcher(s.ctx, s.tenant, key, execution))
}
