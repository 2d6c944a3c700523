package table

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/lockstep-run/lockstep/shared/cost"
)

// capacityMeter is middleware that requests the consumed capacity and counts it, for each attempt
// separately.
type capacityMeter struct {
	role  string
	meter *cost.Meter
}

const meterMiddlewareID = "LockstepMeter"

func (c capacityMeter) register(stack *middleware.Stack) error {
	if c.meter == nil {
		return nil
	}
	err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc(meterMiddlewareID, requestCapacity), middleware.Before)
	if err != nil {
		return err
	}
	counted := middleware.FinalizeMiddlewareFunc(meterMiddlewareID, c.countAttempt)
	if _, found := stack.Finalize.Get("Retry"); found {
		return stack.Finalize.Insert(counted, "Retry", middleware.After)
	}
	return stack.Finalize.Add(counted, middleware.Before)
}

func requestCapacity(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
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

func (c capacityMeter) countAttempt(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
	out, md, err := next.HandleFinalize(ctx, in)
	c.meter.Request()
	switch r := out.Result.(type) {
	case *dynamodb.GetItemOutput:
		c.addRead(r.ConsumedCapacity)
	case *dynamodb.QueryOutput:
		c.addRead(r.ConsumedCapacity)
	case *dynamodb.BatchGetItemOutput:
		for i := range r.ConsumedCapacity {
			c.addRead(&r.ConsumedCapacity[i])
		}
	case *dynamodb.PutItemOutput:
		c.addWrite(r.ConsumedCapacity)
	case *dynamodb.UpdateItemOutput:
		c.addWrite(r.ConsumedCapacity)
	}
	// A failed condition costs write units by the size of the item that was checked, but the error
	// does not contain them.
	var refused *types.ConditionalCheckFailedException
	if errors.As(err, &refused) {
		c.meter.Write(c.role, float64(max(1, (Item(refused.Item).Size()+1023)/1024)))
	}
	return out, md, err
}

func (c capacityMeter) addRead(used *types.ConsumedCapacity) {
	if used != nil && used.CapacityUnits != nil {
		c.meter.Read(c.role, *used.CapacityUnits)
	}
}

func (c capacityMeter) addWrite(used *types.ConsumedCapacity) {
	if used != nil && used.CapacityUnits != nil {
		c.meter.Write(c.role, *used.CapacityUnits)
	}
}
