package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lockstep-run/lockstep/shared/token"
	"github.com/lockstep-run/lockstep/shared/workflow"
)

const (
	// tokenKeysLife is how long keys are used before they are read again, and so the time until a
	// change takes effect.
	tokenKeysLife = 5 * time.Minute
	// tokenKeysRetry is the pause before another attempt if reading them has failed.
	tokenKeysRetry = time.Minute
)

// TokenKeys returns the keys of resume tokens. It reads them when they are first needed, and again
// from time to time. from is the setting token.keys; if it is empty, there are no keys. Keys stay
// in use while they cannot be read again.
func TokenKeys(from string, read func(ctx context.Context, from string) ([]byte, error), now func() time.Time) func(ctx context.Context) (token.Keys, error) {
	var mu sync.Mutex
	var keys token.Keys
	var readAt time.Time
	return func(ctx context.Context) (token.Keys, error) {
		if from == "" {
			return token.Keys{}, nil
		}
		mu.Lock()
		defer mu.Unlock()
		if keys.Set() && now().Sub(readAt) < tokenKeysLife {
			return keys, nil
		}
		doc, err := read(ctx, from)
		if err == nil {
			var fresh token.Keys
			if fresh, err = token.ParseKeys(doc); err == nil {
				keys, readAt = fresh, now()
			}
		}
		if err != nil && keys.Set() {
			readAt = now().Add(tokenKeysRetry - tokenKeysLife)
			return keys, nil
		}
		return keys, err
	}
}

// readTokenKeys reads the document with the keys from a file or from Secrets Manager. Its errors
// contain nothing of the document.
func readTokenKeys(c aws.Config) func(ctx context.Context, from string) ([]byte, error) {
	return func(ctx context.Context, from string) ([]byte, error) {
		if path, ok := strings.CutPrefix(from, "file:"); ok {
			return os.ReadFile(path)
		}
		return readSecret(ctx, c, from)
	}
}

// readSecret reads the current value of a secret by its ARN.
func readSecret(ctx context.Context, c aws.Config, arn string) ([]byte, error) {
	parts := strings.Split(arn, ":")
	if len(parts) < 7 {
		return nil, workflow.Errorf(workflow.CodeInvalid, "token.keys is not the ARN of a secret")
	}
	service := secretsManager
	service.region, service.china = parts[3], parts[1] == "aws-cn"
	raw, status, err := service.call(ctx, c, "GetSecretValue", map[string]any{"SecretId": arn})
	if err != nil {
		return nil, err
	}
	var out struct {
		SecretString string
		Type         string `json:"__type"` // of an error
	}
	if err := json.Unmarshal(raw, &out); err != nil || status != http.StatusOK || out.SecretString == "" {
		return nil, fmt.Errorf("Secrets Manager answers %d %s for the secret of token.keys", status, out.Type) //nolint:staticcheck // a name
	}
	return []byte(out.SecretString), nil
}
