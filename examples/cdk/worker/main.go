// Command worker is the team's worker: a function that consumes the queue of the pool
// meters, with one block.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/lockstep-run/lockstep/shared/boot"
	"github.com/lockstep-run/lockstep/shared/boot/workerhost"
	"github.com/lockstep-run/lockstep/shared/worker"
)

// Reading is the last reading of a meter.
type Reading struct {
	Value string `json:"value"`
}

func main() {
	account, err := config.LoadDefaultConfig(context.Background())
	if err != nil {
		boot.Fatal("meters", err)
	}
	db, table := dynamodb.NewFromConfig(account), os.Getenv("READINGS")
	workerhost.Serve("meters", func(w *worker.Worker) {
		worker.Register(w, worker.Block[struct{}, Reading]{
			Name: "meter/read", Version: "1.0.0", RunOn: "meter", Pure: true,
			Description: "Get the last reading of a meter.",
			Execute: func(ctx context.Context, job *worker.Job, _ struct{}) (Reading, error) {
				found, err := db.GetItem(ctx, &dynamodb.GetItemInput{
					TableName: &table, Key: map[string]types.AttributeValue{"meter": &types.AttributeValueMemberS{Value: job.Entity.ID}},
				})
				if err != nil {
					return Reading{}, err // retryable
				}
				value, ok := found.Item["value"].(*types.AttributeValueMemberS)
				if !ok {
					return Reading{}, worker.Terminal("NO_READING", errors.New("the meter has no reading yet"))
				}
				return Reading{value.Value}, job.SetAttribute("reading", value.Value)
			},
		})
	})
}
