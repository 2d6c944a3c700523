// Package signed authorises a client's requests to a deployed service: with a
// token, or with a signature by IAM credentials (AWS Signature Version 4, service
// execute-api). Both come from the environment, as the tools around them leave
// them there; nothing is read from files.
package signed
