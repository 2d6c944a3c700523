package boot

import (
	"context"
	"fmt"
	"os"
	"slices"

	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// enforceRights makes a client refuse the calls for which the function's role has no right on AWS.
// It does so only if the environment names the function, which only a local stack does. Local
// services allow everything, so a missing right would otherwise first be noticed on AWS.
func enforceRights(o *awsdynamodb.Options) {
	function := os.Getenv(topology.EnvFunction)
	if function == "" {
		return
	}
	roles := map[string]string{}
	for role, key := range topology.TableEnv {
		roles[os.Getenv(key)] = role
	}
	refuse := middleware.InitializeMiddlewareFunc("Rights", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
		out middleware.InitializeOutput, metadata middleware.Metadata, err error) {
		action, tables, index := requestedAction(in.Parameters)
		for _, table := range tables {
			if !isAllowed(function, roles[table], index, action) {
				return out, metadata, &smithy.GenericAPIError{
					Code: "AccessDeniedException", Fault: smithy.FaultClient,
					Message: fmt.Sprintf("the role of %s has no right to %s on %s %s: see topology.Rights", function, action, table, index),
				}
			}
		}
		return next.HandleInitialize(ctx, in)
	})
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error { return stack.Initialize.Add(refuse, middleware.Before) })
}

// requestedAction returns a request's action, its tables and its index. For a request that is not
// listed here it returns an action that no right names, so that the request is refused.
func requestedAction(parameters any) (action string, tables []string, index string) {
	switch in := parameters.(type) {
	case *awsdynamodb.GetItemInput:
		return topology.GetItem, []string{*in.TableName}, ""
	case *awsdynamodb.PutItemInput:
		return topology.PutItem, []string{*in.TableName}, ""
	case *awsdynamodb.UpdateItemInput:
		return topology.UpdateItem, []string{*in.TableName}, ""
	case *awsdynamodb.QueryInput:
		if in.IndexName != nil {
			index = *in.IndexName
		}
		return topology.Query, []string{*in.TableName}, index
	case *awsdynamodb.BatchGetItemInput:
		for table := range in.RequestItems {
			tables = append(tables, table)
		}
		return topology.BatchGetItem, tables, ""
	}
	return fmt.Sprintf("%T", parameters), []string{""}, ""
}

func isAllowed(function, table, index, action string) bool {
	return slices.ContainsFunc(topology.RightsFor(function, table), func(r topology.Right) bool {
		return r.Index == index && slices.Contains(r.Actions, action)
	})
}
