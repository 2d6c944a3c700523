// Package localstack deploys the real stack into LocalStack with the real CDK
// command line and judges it from outside.
//
// A tour. main_test.go brings LocalStack up (localstack/host) and takes it down;
// it does nothing unless LOCKSTEP_E2E=localstack is set, as make test-localstack
// does. stage_test.go bootstraps, deploys, updates and destroys. suite_test.go
// runs tests/e2e against the app of infra as it is deployed there.
//
// docs/aws-behaviours.md says what is shown here and what is not.
package localstack
