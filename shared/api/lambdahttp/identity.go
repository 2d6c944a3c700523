package lambdahttp

import (
	"net/http"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// The headers in which the API is told who calls, and what the gateway calls the
// request.
const (
	headerRequestID = "X-Request-Id"

	headerActor  = "X-Actor"
	headerTenant = "X-Tenant"

	defaultTenant = "default"
)

// Authorizer is what the gateway's authorizer has found out; nil if the route
// has none.
type Authorizer = events.APIGatewayV2HTTPRequestContextAuthorizerDescription

// Identity says who a request comes from. Its answer replaces the headers X-Actor
// and X-Tenant, whatever the client has sent in them, so that behind an adapter
// with an Identity these headers can be trusted. "" removes the header.
type Identity func(a *Authorizer) (actor, tenant string)

func (id Identity) apply(r *http.Request, a *Authorizer) {
	actor, tenant := id(a)
	for name, value := range map[string]string{headerActor: actor, headerTenant: tenant} {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
}

// FromAuthorizer is the identity on AWS: the actor is the JWT's subject or the
// IAM caller's ARN; the tenant is the JWT claim of the given name, or "default"
// if no claim is configured. A caller without the configured claim has no tenant.
func FromAuthorizer(tenantClaim string) Identity {
	return func(a *Authorizer) (actor, tenant string) {
		switch {
		case a == nil:
			return "", ""
		case a.JWT != nil:
			actor, tenant = a.JWT.Claims["sub"], a.JWT.Claims[tenantClaim]
		case a.IAM != nil:
			actor = a.IAM.UserARN
		}
		if tenantClaim == "" {
			tenant = defaultTenant
		}
		return actor, tenant
	}
}

// Caller reads what an [Identity] has written. It is for an API that is served
// through an adapter that has one, and for no other: without it a client names
// itself as it likes.
func Caller(r *http.Request) (workflow.Caller, error) {
	c := workflow.Caller{Actor: r.Header.Get(headerActor), Tenant: r.Header.Get(headerTenant)}
	if c.Actor == "" || c.Tenant == "" {
		return workflow.Caller{}, workflow.Errorf(workflow.CodeUnauthorized, "the caller is not known")
	}
	// A tenant is part of keys, whoever has named it.
	if !workflow.ValidID(c.Tenant) {
		return workflow.Caller{}, workflow.Errorf(workflow.CodeUnauthorized, "%.100q is no name of a tenant", c.Tenant)
	}
	return c, nil
}
