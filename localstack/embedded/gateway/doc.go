// Package gateway is the HTTP API in front of the API function: it turns each
// request into the event that API Gateway sends (payload format 2.0), invokes the
// function, and turns the reply back into a response.
//
// A tour:
//
//   - gateway.go: [New], limits, and what a client sees when something fails.
//   - event.go: from a request to the event.
//   - reply.go: from the reply to the response.
//
// There is one route, $default, and one stage, $default, as in the deployed
// stack, so that routing is the function's. Failures are answered as problems
// (RFC 9457), which API Gateway itself cannot do; their statuses are its own.
package gateway
