// Package lambdahttp serves an http.Handler as a Lambda function behind an API Gateway
// HTTP API (payload format 2.0).
//
// It is a package of its own because the API must not depend on Lambda's event types:
// tests serve the same handler with a plain http.Server. The adapter is our own, because
// the usual modules link several web frameworks, and every byte makes a function's cold
// start slower.
//
//   - handler.go: [New], the Lambda handler, and who the caller is.
//   - roles.go: which roles a token gives.
//   - event.go: from the event to an http.Request, and from the answer to the event's
//     response.
package lambdahttp

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lockstep-run/lockstep/shared/observe"
	"github.com/lockstep-run/lockstep/shared/topology"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

// Handler is a handler for lambda.Start.
type Handler func(context.Context, events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error)

// Options configure [New]. The zero value is usable.
type Options struct {
	// Identity, if set, names the caller of every request; see [Identity].
	Identity Identity
	// Log is for panics; nil is slog.Default().
	Log *slog.Logger
}

// New makes the Lambda handler. A panic in h is logged and answered with a problem of
// status 500. If it were not recovered, it would end the process, and the next request
// would wait for a cold start.
func New(h http.Handler, opts Options) Handler {
	log := opts.Log
	if log == nil {
		log = slog.Default()
	}
	return func(ctx context.Context, event events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
		working, cancel := reserveAnswer(ctx)
		defer cancel()
		r, err := newRequest(working, &event)
		if err != nil {
			return problem(http.StatusBadRequest, workflow.CodeInvalid, err.Error()), nil
		}
		if opts.Identity != nil {
			opts.Identity.apply(r, event.RequestContext.Authorizer)
		}
		w := &recorder{header: http.Header{}}
		if cause, stack := serve(h, w, r); cause != nil {
			log.LogAttrs(ctx, slog.LevelError, "panic", append(observe.PanicAttrs(cause, stack), slog.String("method", r.Method), slog.String("path", r.URL.Path))...)
			return problem(http.StatusInternalServerError, workflow.CodeInternal, "the request could not be served"), nil
		}
		return w.response(r.Method), nil
	}
}

// answerTime is how long before the end of an invocation the work for its request ends. The request can
// then be answered; Lambda would kill the process, and count an error of the function.
const answerTime = time.Second

// reserveAnswer returns a context that ends answerTime before the invocation or, if the invocation is that
// short, at half of its time.
func reserveAnswer(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, deadline.Add(-min(answerTime, time.Until(deadline)/2)))
}

// serve calls h. If h panics, it returns the cause and the stack.
func serve(h http.Handler, w http.ResponseWriter, r *http.Request) (cause any, stack []byte) {
	defer func() {
		if cause = recover(); cause != nil {
			stack = debug.Stack()
		}
	}()
	h.ServeHTTP(w, r)
	return nil, nil
}

// problem answers a request that the handler could not answer.
func problem(status int, code workflow.Code, detail string) events.APIGatewayV2HTTPResponse {
	return events.APIGatewayV2HTTPResponse{
		StatusCode: status,
		Headers:    map[string]string{"Content-Type": "application/problem+json"},
		Cookies:    []string{},
		Body: fmt.Sprintf(`{"type":"urn:lockstep:problem:%s","title":%q,"status":%d,"detail":%q,"code":%q,"errors":[]}`,
			code, http.StatusText(status), status, detail, code),
	}
}

// Headers that pass the request id and the caller on to the API.
const (
	headerRequestID = "X-Request-Id"
	headerActor     = "X-Actor"
	headerTenant    = "X-Tenant"
	headerRoles     = "X-Roles"
)

// Authorizer is the result of the gateway's authorizer; nil if the route has none.
type Authorizer = events.APIGatewayV2HTTPRequestContextAuthorizerDescription

// JWT is what the authorizer has read from a verified token.
type JWT = events.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription

// Identity returns the caller of a request. Its results replace the headers X-Actor, X-Tenant
// and X-Roles, whatever the client sent in them, so that these headers can be trusted behind
// an adapter with an Identity. "" removes the header.
// authorization is the header of that name, which the gateway has verified.
type Identity func(a *Authorizer, authorization string) (actor, tenant, roles string)

func (id Identity) apply(r *http.Request, a *Authorizer) {
	actor, tenant, roles := id(a, r.Header.Get("Authorization"))
	for name, value := range map[string]string{headerActor: actor, headerTenant: tenant, headerRoles: roles} {
		r.Header.Del(name)
		if value != "" {
			r.Header.Set(name, value)
		}
	}
}

// FromAuthorizer is the Identity on AWS. The actor is the JWT's subject or the IAM caller's ARN.
// The tenant is the JWT's claim tenantClaim, or "default" if that is ""; a caller without the claim
// has no tenant. The roles come from the claim rolesClaim; none if that is "".
func FromAuthorizer(tenantClaim, rolesClaim string) Identity {
	return func(a *Authorizer, authorization string) (actor, tenant, roles string) {
		switch {
		case a == nil:
			return "", "", ""
		case a.JWT != nil:
			actor, tenant = a.JWT.Claims["sub"], a.JWT.Claims[tenantClaim]
			if rolesClaim != "" {
				roles = roleNames(a.JWT, rolesClaim, authorization)
			}
		case a.IAM != nil:
			actor = a.IAM.UserARN
		}
		if tenantClaim == "" {
			tenant = topology.TenantDefault
		}
		return actor, tenant, roles
	}
}

// Caller reads the headers that an [Identity] has written. Use it only for an API behind
// an adapter with an Identity: otherwise clients can name themselves as they like.
func Caller(r *http.Request) (workflow.Caller, error) {
	c := workflow.Caller{Actor: r.Header.Get(headerActor), Tenant: r.Header.Get(headerTenant), Roles: r.Header.Get(headerRoles)}
	if c.Actor == "" || c.Tenant == "" {
		return workflow.Caller{}, workflow.Errorf(workflow.CodeUnauthorized, "the caller is not authenticated")
	}
	// A tenant is part of keys, so it is checked even if an authorizer named it.
	if !workflow.ValidID(c.Tenant) {
		return workflow.Caller{}, workflow.Errorf(workflow.CodeUnauthorized, "%.100q is not a valid tenant", c.Tenant)
	}
	return c, nil
}
