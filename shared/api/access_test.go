package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lockstep-run/lockstep/shared/api"
	"github.com/lockstep-run/lockstep/shared/api/openapi"
	"github.com/lockstep-run/lockstep/shared/views"
)

// withRoles gives each role to who has the role of the same name, in capitals, in its claim.
func withRoles(o *api.Options) {
	o.Access = api.Access{}
	for _, role := range []api.Role{api.RoleViewer, api.RoleOperator, api.RoleApprover, api.RoleAdmin, api.RoleWorker} {
		o.Access[role] = []string{strings.ToUpper(string(role))}
	}
}

// rolesOf returns the roles that the document lists for a route.
func rolesOf(pattern string) (roles []string) {
	method, path, _ := strings.Cut(pattern, " ")
	listed, _ := asObject(asObject(asObject(openAPI()["paths"])[path])[strings.ToLower(method)])["x-roles"].([]any)
	for _, role := range listed {
		roles = append(roles, role.(string))
	}
	return roles
}

// Every route that needs a caller has its roles in the document, and docs/api.md lists it under the
// same roles. A route without roles is for admins only.
func TestAccess_EveryRouteHasARow(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## Who may do what")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := map[string]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for route := range strings.SplitSeq(cells[2], ",") {
			documented[strings.Trim(strings.TrimSpace(route), "`")] = strings.TrimSpace(cells[1])
		}
	}
	for pattern, op := range openapi.Load().Operations {
		roles := rolesOf(pattern)
		if op.Public != (len(roles) == 0) {
			t.Errorf("%s: public %t, roles %v", pattern, op.Public, roles)
		}
		if got, want := documented[pattern], strings.Join(roles, " or "); got != want {
			t.Errorf("%s: docs/api.md lists it under %q, want %q", pattern, got, want)
		}
	}
}

// Each role may call what the document says. A refusal names the required roles and calls no
// service, so that it is the same for things that do not exist.
func TestAccess_EachRoleMayCallItsRoutes(t *testing.T) {
	implied := map[string][]string{"": nil, "viewer": {"viewer"}, "operator": {"viewer", "operator"}, "approver": {"viewer", "approver"}, "worker": {"worker"}, "admin": {"viewer", "operator", "approver", "admin", "worker"}, "none": nil}
	refusals := 0
	for _, c := range servedRoutes {
		method, _, _ := strings.Cut(c.pattern, " ")
		needed := rolesOf(c.pattern)
		for role, is := range implied {
			f := newFake()
			h := newHandler(f, withRoles, withMonitor)
			allowed := len(needed) == 0 || slices.Contains(needed, string(api.RoleAnybody)) || slices.ContainsFunc(is, func(r string) bool { return slices.Contains(needed, r) })
			if c.pattern == "POST /workflow-execution/{id}/resume" { // the body decides which of the two
				allowed = role == "admin" || strings.Contains(c.body, "input") && role == "approver" || !strings.Contains(c.body, "input") && role == "operator"
			}
			w := sendRequest(h, method+" "+c.target, c.body, "X-Roles: others,"+strings.ToUpper(role))
			if allowed {
				if w.Code != c.status {
					t.Errorf("%s as %q: status %d, want %d: %s", c.pattern, role, w.Code, c.status, w.Body)
				}
				continue
			}
			refusals++
			checkResponse(t, c.pattern, w)
			if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"code":"role"`) || !slices.ContainsFunc(needed, func(r string) bool {
				return strings.Contains(w.Body.String(), "want "+r) || strings.Contains(w.Body.String(), r+`"`)
			}) {
				t.Errorf("%s as %q: status %d: %s", c.pattern, role, w.Code, w.Body)
			}
			if len(f.calls) > 0 {
				t.Errorf("%s as %q: a service was asked: %v", c.pattern, role, f.calls)
			}
		}
	}
	if refusals < 100 {
		t.Errorf("only %d refusals", refusals)
	}
}

// A caller may call exactly the operations that it is told.
func TestCaller_IsToldWhatItMayCall(t *testing.T) {
	for _, role := range []string{"", "VIEWER", "OPERATOR", "APPROVER", "ADMIN", "WORKER"} {
		var me views.CallerView
		w := sendRequest(newHandler(newFake(), withRoles), "GET /caller", "", "X-Roles: "+role, "X-Actor: ann", "X-Tenant: acme")
		if err := json.Unmarshal(w.Body.Bytes(), &me); err != nil || me.Tenant != "acme" || me.Actor != "ann" || strings.Join(me.RoleNames, ",") != role {
			t.Errorf("%q: %v %+v", role, err, me)
		}
		for _, c := range servedRoutes {
			method, _, _ := strings.Cut(c.pattern, " ")
			f := newFake()
			f.tenant = "acme"
			w := sendRequest(newHandler(f, withRoles, withMonitor), method+" "+c.target, c.body, "X-Roles: "+role, "X-Tenant: acme")
			if id := openapi.Load().Operations[c.pattern].ID; id != "resumeExecution" && slices.Contains(me.Operations, id) != (w.Code != http.StatusForbidden) {
				t.Errorf("%s as %q: status %d, told %v", id, role, w.Code, slices.Contains(me.Operations, id))
			}
		}
	}
	var me views.CallerView
	if err := json.Unmarshal(sendRequest(newHandler(newFake()), "GET /caller", "").Body.Bytes(), &me); err != nil || len(me.Roles) != 5 || len(me.Operations) != len(openapi.Load().Operations) {
		t.Errorf("without configured roles: %v %+v", err, me)
	}
}

// A step that is taken with an answer needs the right to answer, beside that to take it.
func TestAccess_NextWithInputNeedsBoth(t *testing.T) {
	for roles, want := range map[string]int{"OPERATOR": http.StatusForbidden, "APPROVER": http.StatusForbidden, "OPERATOR,APPROVER": http.StatusAccepted, "ADMIN": http.StatusAccepted} {
		f := newFake()
		w := sendRequest(newHandler(f, withRoles), "POST /workflow-execution/"+executionID+"/next", `{"input":{"approved":true},"step":"approve","visit":1}`, "X-Roles: "+roles)
		if checkResponse(t, "POST /workflow-execution/{id}/next", w); w.Code != want || want == http.StatusForbidden && len(f.calls) > 0 {
			t.Errorf("%s: status %d, asked %v", roles, w.Code, f.calls)
		}
	}
}

// Only an admin cancels in the name of the system or of an admin.
func TestAccess_SourceOfACancelNeedsTheRole(t *testing.T) {
	for _, c := range []struct {
		role, source string
		want         int
	}{{"OPERATOR", "user", http.StatusAccepted}, {"OPERATOR", "system", http.StatusForbidden}, {"OPERATOR", "admin", http.StatusForbidden},
		{"ADMIN", "system", http.StatusAccepted}, {"ADMIN", "admin", http.StatusAccepted}, {"ADMIN", "parent", http.StatusBadRequest}} {
		for _, request := range []string{"POST /workflow-execution/" + executionID + "/cancel", "DELETE /workflow-execution/" + executionID} {
			f := newFake()
			w := sendRequest(newHandler(f, withRoles), request, `{"source":"`+c.source+`"}`, "X-Roles: "+c.role)
			if w.Code != c.want || (len(f.calls) > 0) != (c.want == http.StatusAccepted) || c.want == http.StatusAccepted && f.cancel.Source != c.source {
				t.Errorf("%s as %s, %s: status %d, asked %v, %+v", c.source, c.role, request, w.Code, f.calls, f.cancel)
			}
		}
	}
	if w := sendRequest(newHandler(newFake()), "POST /workflow-execution/"+executionID+"/cancel", `{"source":"system"}`); w.Code != http.StatusAccepted {
		t.Errorf("without configured roles: %d", w.Code)
	}
}

// Without configured roles everybody may do everything, as before there were any. A bad request
// of somebody without the role is refused for that.
func TestAccess_DefaultAndOrder(t *testing.T) {
	if w := sendRequest(newHandler(newFake()), "DELETE /workflow-definition/fleet/upgrade/1.0.0", ""); w.Code != http.StatusOK {
		t.Errorf("without roles: %d", w.Code)
	}
	empty := func(o *api.Options) { o.Access = api.Access{api.RoleAdmin: nil, api.RoleViewer: {}} }
	if w := sendRequest(newHandler(newFake(), empty), "POST /dead-letters/redrive", ""); w.Code != http.StatusOK {
		t.Errorf("with empty lists: %d", w.Code)
	}
	if w := sendRequest(newHandler(newFake(), withRoles), "POST /workflow-execution", `{"nonsense":`, "X-Roles: VIEWER"); w.Code != http.StatusForbidden {
		t.Errorf("a bad request: %d", w.Code)
	}
}

// What a caller may answer is nothing if it may answer nothing at all.
func TestAccess_NobodyButApproversHasInputs(t *testing.T) {
	for role, want := range map[string]bool{"VIEWER": false, "OPERATOR": false, "APPROVER": true, "ADMIN": true} {
		f := newFake()
		w := sendRequest(newHandler(f, withRoles), "GET /inputs?mine=true", "", "X-Roles: "+role)
		if asked := slices.Contains(f.calls, "Inbox"); w.Code != http.StatusOK || asked != want {
			t.Errorf("%s: %d, asked %v", role, w.Code, asked)
		}
		f.inputs = true // of the caller
		w = sendRequest(newHandler(f, withRoles), "GET /workflow-execution/id/"+executionID+"/inputs?mine=true", "", "X-Roles: "+role)
		if shown := strings.Contains(w.Body.String(), `"step"`); w.Code != http.StatusOK || shown != want {
			t.Errorf("%s: %d, of one execution shown %v", role, w.Code, shown)
		}
	}
}

// A role may be given to a caller by name, for callers without claims.
func TestAccess_ByNameOfTheCaller(t *testing.T) {
	h := newHandler(newFake(), func(o *api.Options) {
		o.Access = api.Access{api.RoleAdmin: {"root"}, api.RoleOperator: {"actor:ann", "actor:arn:aws:sts::1:assumed-role/ops/*"}}
	})
	for actor, want := range map[string]int{"ann": 202, "anne": 403, "ops": 403, "arn:aws:sts::1:assumed-role/ops/bob": 202, "arn:aws:sts::1:assumed-role/opsx/bob": 403, "actor:ann": 403} {
		if w := sendRequest(h, "POST /workflow-execution/"+executionID+"/cancel", "", "X-Actor: "+actor); w.Code != want {
			t.Errorf("%s: %d, want %d", actor, w.Code, want)
		}
	}
	if w := sendRequest(h, "POST /workflow-execution/"+executionID+"/cancel", "", "X-Roles: actor:ann"); w.Code != http.StatusForbidden {
		t.Error("a role counts as the name of a caller")
	}
	for roles, want := range map[string]int{"platform root": 403, "root ops": 403, "x, root": 202} {
		if w := sendRequest(h, "POST /dead-letters/redrive", "", "X-Roles: "+roles); (w.Code == http.StatusForbidden) != (want == 403) {
			t.Errorf("with the roles %q: %d", roles, w.Code)
		}
	}
}

// A refusal names the roles of callers that would do, and no callers.
func TestAccess_RefusalNamesTheRolesThatWouldDo(t *testing.T) {
	h := newHandler(newFake(), func(o *api.Options) { o.Access = api.Access{api.RoleOperator: {"netops", "actor:ann"}} })
	w := sendRequest(h, "POST /workflow-execution/"+executionID+"/cancel", "", "X-Roles: operator")
	if text := w.Body.String(); w.Code != http.StatusForbidden || !strings.Contains(text, "which the configuration access gives to netops") || strings.Contains(text, "ann") {
		t.Errorf("%d: %s", w.Code, text)
	}
}
