// Package signed authorises requests to a deployed service: with a token, or with a
// signature by IAM credentials (AWS Signature Version 4, service execute-api), which
// are found where AWS's own tools find them.
package auth
