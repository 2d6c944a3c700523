// Package client talks to the engine over HTTP, in terms of the nouns of
// shared/workflow. The CLI and the end-to-end tests are its users.
//
//	c, err := client.New(client.Options{URL: "http://localhost:3030"})
//	started, _, err := c.Start(ctx, views.StartRequest{Workflow: "fleet/upgrade_firmware"})
//	last, err := c.Wait(ctx, started.ID, time.Second, nil)
//
// A refusal of the service is a [*workflow.Error] with its code and issues, a
// service that cannot be reached an [*UnreachableError]. Requests that may be
// sent twice are sent again, with growing and jittered pauses, where that can
// help. Lists are iterators that fetch page after page.
//
// A tour: client.go (options), transport.go (headers, retries), answer.go
// (problems), then what can be asked: definitions.go, entities.go,
// executions.go, wait.go. The room signed authorises requests to a deployed
// service, by a token or IAM credentials.
package client
