package api

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Role is a role of a caller. It is one of those below, whatever the installation calls it.
type Role string

// Roles. Operators and approvers are viewers too; an admin has every role.
const (
	RoleViewer   Role = "viewer"   // reads everything of its tenant
	RoleOperator Role = "operator" // starts and changes executions, and changes the inventory
	RoleApprover Role = "approver" // answers what executions ask
	RoleAdmin    Role = "admin"    // publishes, archives and restores definitions, and registers blocks
	RoleWorker   Role = "worker"   // polls for jobs, and nothing else

	// RoleAnybody is the role of everybody whom the service has identified.
	RoleAnybody Role = "anybody"
)

// routeRoles says for each route which roles may call it; one of them is enough. A route that is
// not listed here, and not open to everybody, is for admins. A test compares the table with the
// OpenAPI document and with docs/api.md.
var routeRoles = map[string][]Role{
	"POST /workflow-definition/publish":                            {RoleAdmin},
	"GET /workflow-definition":                                     {RoleViewer},
	"GET /workflow-definition/{package}/{name}":                    {RoleViewer},
	"GET /workflow-definition/{package}/{name}/{version}":          {RoleViewer},
	"DELETE /workflow-definition/{package}/{name}/{version}":       {RoleAdmin},
	"POST /workflow-definition/{package}/{name}/{version}/restore": {RoleAdmin},
	"POST /function-blocks/register":                               {RoleAdmin, RoleWorker},
	"GET /function-blocks":                                         {RoleViewer},
	"GET /function-blocks/{package}/{name}/{version}/workers":      {RoleViewer},
	"GET /schedules":                                {RoleViewer},
	"GET /schedules/{package}/{name}":               {RoleViewer},
	"DELETE /schedules/{package}/{name}":            {RoleAdmin},
	"POST /schedules/{package}/{name}/pause":        {RoleOperator},
	"POST /schedules/{package}/{name}/resume":       {RoleOperator},
	"POST /schedules/{package}/{name}/remove":       {RoleAdmin},
	"POST /schedules/{package}/{name}/fire":         {RoleOperator},
	"GET /subscriptions":                            {RoleViewer},
	"GET /subscriptions/{name}":                     {RoleViewer},
	"PUT /subscriptions/{name}":                     {RoleAdmin},
	"DELETE /subscriptions/{name}":                  {RoleAdmin},
	"POST /subscriptions/{name}/resume":             {RoleOperator},
	"POST /subscriptions/{name}/test":               {RoleOperator},
	"GET /subscriptions/{name}/deliveries":          {RoleViewer},
	"GET /tables":                                   {RoleViewer},
	"GET /tables/{name}":                            {RoleViewer},
	"PUT /tables/{name}":                            {RoleAdmin},
	"GET /tables/{name}/rows":                       {RoleViewer},
	"GET /tables/{name}/deliveries":                 {RoleViewer},
	"POST /tables/{name}/retry":                     {RoleOperator},
	"GET /triggers":                                 {RoleViewer},
	"GET /triggers/{name}":                          {RoleViewer},
	"GET /triggers/{name}/history":                  {RoleViewer},
	"GET /triggers/{name}/stats":                    {RoleViewer},
	"POST /triggers/{name}/pause":                   {RoleOperator},
	"POST /triggers/{name}/resume":                  {RoleOperator},
	"POST /triggers/{name}/fire":                    {RoleOperator},
	"POST /events":                                  {RoleOperator},
	"GET /entities":                                 {RoleViewer},
	"GET /entities/types":                           {RoleViewer},
	"POST /entities/import":                         {RoleOperator},
	"GET /entities/{type}/{id}":                     {RoleViewer},
	"PUT /entities/{type}/{id}":                     {RoleOperator},
	"PATCH /entities/{type}/{id}":                   {RoleOperator},
	"DELETE /entities/{type}/{id}":                  {RoleOperator},
	"GET /entities/{type}/{id}/executions":          {RoleViewer},
	"POST /workflow-execution":                      {RoleOperator},
	"GET /workflow-execution":                       {RoleViewer},
	"POST /workflow-execution/batch":                {RoleOperator},
	"POST /workflow-execution/bulk":                 {RoleOperator},
	"POST /workflow-execution/plan":                 {RoleViewer},
	"GET /workflow-execution/active":                {RoleViewer},
	"GET /workflow-execution/state/{state}":         {RoleViewer},
	"GET /workflow-execution/id/{id}":               {RoleViewer},
	"GET /workflow-execution/id/{id}/history":       {RoleViewer},
	"GET /workflow-execution/id/{id}/jobs":          {RoleViewer},
	"GET /workflow-execution/id/{id}/compensations": {RoleViewer},
	"GET /workflow-execution/id/{id}/children":      {RoleViewer},
	"GET /workflow-execution/id/{id}/steps":         {RoleViewer},
	"GET /workflow-execution/id/{id}/result":        {RoleViewer},
	"GET /workflow-execution/id/{id}/cost":          {RoleViewer},
	"GET /workflow-execution/id/{id}/definition":    {RoleViewer},
	"GET /workflow-execution/id/{id}/next":          {RoleViewer},
	"GET /workflow-execution/id/{id}/inputs":        {RoleViewer},
	"GET /inputs":                                   {RoleViewer},
	"DELETE /workflow-execution/{id}":               {RoleOperator},
	"POST /workflow-execution/{id}/cancel":          {RoleOperator},
	"POST /workflow-execution/{id}/acknowledge":     {RoleOperator},
	"POST /workflow-execution/{id}/retry":           {RoleOperator},
	"POST /workflow-execution/{id}/rerun":           {RoleOperator},
	"POST /workflow-execution/{id}/resume":          {RoleOperator, RoleApprover},
	"POST /workflow-execution/{id}/next":            {RoleOperator},
	"POST /workflow-execution/{id}/rewind":          {RoleOperator},
	"POST /workflow-execution/{id}/unlock":          {RoleOperator},
	"POST /workflow-execution/{id}/signal/{name}":   {RoleOperator},
	"POST /signals/{package}/{name}/{key}/{signal}": {RoleOperator},
	"GET /workflow-execution/id/{id}/tokens":        {RoleViewer},
	"POST /workflow-execution/{id}/tokens":          {RoleApprover},
	"POST /workflow-execution/{id}/tokens/revoke":   {RoleOperator, RoleApprover},
	"GET /failures":                                 {RoleViewer},
	"GET /audit":                                    {RoleViewer},
	"GET /metrics/summary":                          {RoleViewer},
	"GET /executions/{id}/status":                   {RoleViewer},
	"GET /locks":                                    {RoleViewer},
	"GET /locks/{type}/{id}":                        {RoleViewer},
	"GET /workers":                                  {RoleViewer},
	"POST /workers/register":                        {RoleWorker},
	"GET /workers/{id}":                             {RoleViewer},
	"POST /workers/{id}/heartbeat":                  {RoleWorker},
	"POST /workers/{id}/drain":                      {RoleOperator},
	"POST /workers/{id}/unregister":                 {RoleWorker},
	"POST /blackboard/job":                          {RoleWorker},
	"POST /blackboard/job/heartbeat":                {RoleWorker},
	"POST /blackboard/job/result":                   {RoleWorker},
	"GET /blackboard/jobs":                          {RoleViewer},
	"GET /dead-letters":                             {RoleViewer},
	"POST /dead-letters/redrive":                    {RoleOperator},
	"GET /sweep":                                    {RoleViewer},
	"GET /secrets":                                  {RoleViewer},
	"GET /caller":                                   {RoleAnybody},
}

// rolesOf returns the roles that may call a route.
func rolesOf(pattern string) []Role {
	if roles, listed := routeRoles[pattern]; listed {
		return roles
	}
	return []Role{RoleAdmin}
}

// Access says who has which role: names of roles that callers have, or "actor:" and the name of a
// caller, which may end with *. If it is empty, everybody whom the service has identified may do
// everything.
type Access map[Role][]string

// configured reports whether anybody is given a role.
func (a Access) configured() bool {
	for _, names := range a {
		if len(names) > 0 {
			return true
		}
	}
	return false
}

// has reports whether a caller has a role itself, not through another one.
func (a Access) has(c workflow.Caller, role Role) bool {
	own := c.RoleNames()
	return slices.ContainsFunc(a[role], func(name string) bool {
		actor, ok := strings.CutPrefix(name, "actor:")
		if !ok {
			return slices.Contains(own, name)
		}
		if prefix, open := strings.CutSuffix(actor, "*"); open {
			return strings.HasPrefix(c.Actor, prefix)
		}
		return c.Actor == actor
	})
}

// check returns CodeForbidden if a caller has none of the roles. It depends only on the caller and
// the route, so that it reveals nothing about what exists.
func (a Access) check(c workflow.Caller, roles ...Role) error {
	if !a.configured() || a.has(c, RoleAdmin) || slices.Contains(roles, RoleAnybody) {
		return nil
	}
	for _, role := range roles {
		if a.has(c, role) || role == RoleViewer && (a.has(c, RoleOperator) || a.has(c, RoleApprover)) {
			return nil
		}
	}
	names := make([]string, len(roles))
	for i, role := range roles {
		names[i] = string(role)
	}
	needed := strings.Join(names, " or ")
	given := []string{}
	for _, role := range roles {
		for _, name := range a[role] {
			if !strings.HasPrefix(name, "actor:") && name != string(role) && !slices.Contains(given, name) {
				given = append(given, name)
			}
		}
	}
	if len(given) > 0 {
		needed += fmt.Sprintf(", which the configuration access gives to %s", strings.Join(given, ", "))
	}
	return &workflow.Error{
		Code: workflow.CodeForbidden, Message: fmt.Sprintf("this needs the role %s: the caller %q does not have it", needed, c.Actor),
		Issues: []workflow.Issue{{Path: "", Code: "role", Message: "want " + needed}},
	}
}
