package sqs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go/middleware"

	"github.com/lockstep-run/lockstep/shared/cost"
)

// countRequests returns middleware that counts each attempt of a call by the bytes of the messages
// that it sends; a nil meter counts nothing.
func countRequests(meter *cost.Meter) func(*awssqs.Options) {
	return func(o *awssqs.Options) {
		if meter == nil {
			return
		}
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			const id = "LockstepMeter"
			sent := 0
			err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc(id, func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				if p, ok := in.Parameters.(*awssqs.SendMessageBatchInput); ok {
					for i := range p.Entries {
						sent += len(aws.ToString(p.Entries[i].MessageBody))
					}
				}
				return next.HandleInitialize(ctx, in)
			}), middleware.Before)
			if err != nil {
				return err
			}
			attempt := middleware.FinalizeMiddlewareFunc(id, func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
				out, md, err := next.HandleFinalize(ctx, in)
				meter.Queue(sent)
				return out, md, err
			})
			if _, found := stack.Finalize.Get("Retry"); found {
				return stack.Finalize.Insert(attempt, "Retry", middleware.After)
			}
			return stack.Finalize.Add(attempt, middleware.Before)
		})
	}
}
