// Package front makes the HTTP interface of an engine: an API in front of one
// function, which routes for itself. It lets through whoever signs with IAM
// credentials or has a token, throttles and logs; only the health check, and by
// option the page's static files, are for everybody.
//
// The API is made of plain CloudFormation resources: the package of CDK's own
// abstractions would double the time that this one takes to compile.
package front
