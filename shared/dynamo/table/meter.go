package table

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/lockstep-run/lockstep/shared/cost"
)

// count is the middleware that asks for consumed capacity and counts it, for
// each attempt by itself.
type count struct {
	role  string
	meter *cost.Meter
}

const countID = "LockstepMeter"

func (c count) register(stack *middleware.Stack) error {
	if c.meter == nil {
		return nil
	}
	err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc(countID, ask), middleware.Before)
	if err != nil {
		return err
	}
	counted := middleware.FinalizeMiddlewareFunc(countID, c.attempt)
	if _, found := stack.Finalize.Get("Retry"); found {
		return stack.Finalize.Insert(counted, "Retry", middleware.After)
	}
	return stack.Finalize.Add(counted, middleware.Before)
}

func ask(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	const want = types.ReturnConsumedCapacityIndexes
	switch p := in.Parameters.(type) {
	case *dynamodb.GetItemInput:
		p.ReturnConsumedCapacity = want
	case *dynamodb.BatchGetItemInput:
		p.ReturnConsumedCapacity = want
	case *dynamodb.QueryInput:
		p.ReturnConsumedCapacity = want
	case *dynamodb.PutItemInput:
		p.ReturnConsumedCapacity = want
	case *dynamodb.UpdateItemInput:
		p.ReturnConsumedCapacity = want
	}
	return next.HandleInitialize(ctx, in)
}

func (c count) attempt(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	out, md, err := next.HandleFinalize(ctx, in)
	c.meter.Request()
	switch r := out.Result.(type) {
	case *dynamodb.GetItemOutput:
		c.read(r.ConsumedCapacity)
	case *dynamodb.QueryOutput:
		c.read(r.ConsumedCapacity)
	case *dynamodb.BatchGetItemOutput:
		for i := range r.ConsumedCapacity {
			c.read(&r.ConsumedCapacity[i])
		}
	case *dynamodb.PutItemOutput:
		c.write(r.ConsumedCapacity)
	case *dynamodb.UpdateItemOutput:
		c.write(r.ConsumedCapacity)
	}
	// A failed condition is paid for by the size of the item it was checked on,
	// but the service does not say so in its error.
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		c.meter.Write(c.role, float64(max(1, (Item(refused.Item).Size()+1023)/1024)))
	}
	return out, md, err
}

func (c count) read(used *types.ConsumedCapacity) {
	if used != nil && used.CapacityUnits != nil {
		c.meter.Read(c.role, *used.CapacityUnits)
	}
}

func (c count) write(used *types.ConsumedCapacity) {
	if used != nil && used.CapacityUnits != nil {
		c.meter.Write(c.role, *used.CapacityUnits)
	}
}
