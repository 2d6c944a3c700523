package api

import (
	"errors"
	"net/http"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The caller of a local stack that does not name itself.
const (
	defaultTenant = "default"
	defaultActor  = "local"
)

// identify names the caller, or says why nobody can be named.
func (a *routes) identify(r *http.Request) (workflow.Caller, error) {
	switch {
	case a.opt.TrustHeaders:
		return callerFromHeaders(r.Header)
	case a.opt.Identify == nil:
		return workflow.Caller{}, workflow.Errorf(workflow.CodeUnauthorized, "the caller is not known")
	}
	c, err := a.opt.Identify(r)
	var coded *workflow.Error
	switch {
	case errors.As(err, &coded):
		return c, err
	case err != nil:
		return c, &workflow.Error{Code: workflow.CodeUnauthorized, Message: "the caller is not known", Cause: err}
	case c.Tenant == "":
		return c, workflow.Errorf(workflow.CodeUnauthorized, "the caller has no tenant")
	}
	return c, nil
}

func callerFromHeaders(h http.Header) (workflow.Caller, error) {
	c := workflow.Caller{Tenant: defaultTenant, Actor: defaultActor}
	var issues []workflow.Issue
	if t := h.Get("X-Tenant"); t != "" {
		c.Tenant = t
	}
	if !workflow.ValidID(c.Tenant) {
		issues = append(issues, workflow.Issue{Path: "X-Tenant", Code: "pattern", Message: "want up to 128 letters, digits and ._:@+-"})
	}
	if s := h.Get("X-Actor"); s != "" {
		c.Actor = s
	}
	if !isVisibleASCII(c.Actor, 256) {
		issues = append(issues, workflow.Issue{Path: "X-Actor", Code: "pattern", Message: "want up to 256 visible characters"})
	}
	return c, workflow.Invalid("the caller's name is not valid", issues)
}

// caller is who asks, of a request that the guard has let through.
func (a *routes) caller(r *http.Request) workflow.Caller {
	c, _ := a.identify(r)
	// An id that was made here would only say again which request it was.
	if id := r.Header.Get(headerCorrelationID); id != r.Header.Get(headerRequestID) {
		c.CorrelationID = id
	}
	return c
}
