// Package localstack deploys the real stack into LocalStack with the real CDK
// command line and judges it from outside.
//
// A tour. main_test.go brings LocalStack up (localstack/emulator) and takes it down;
// it does nothing unless LOCKSTEP_E2E=localstack is set, as make test-localstack
// does. stage_test.go bootstraps, deploys, updates and destroys, and
// deployed_test.go has the two stories: the app of infra, on which suite_test.go
// runs tests/e2e, and which is then updated in the middle of a run; and app/, a
// user's app with pools of his own, on which the scenes of scenes_test.go are
// played. Their workers are the fleet's of examples/fleet and faulty/, which fails
// as orders_test.go tells it. queues_test.go asks the services of AWS themselves,
// and doctor_test.go has the command look at what is deployed.
//
// docs/aws-behaviours.md says what is shown here and what is not. With
// LOCKSTEP_E2E_RUN only these tests of tests/e2e are run.
package localstack
