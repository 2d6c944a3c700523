package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lockstep-run/lockstep/shared/workflow"
)

// secretLife is how long a process uses a secret before it reads it again, and so the time until a
// change takes effect.
const secretLife = 5 * time.Minute

// maxKnownSecrets bounds the secrets that a process caches.
const maxKnownSecrets = 1000

// Secrets are the secrets for jobs, in Secrets Manager, in the parameter store, or in a file. It is
// safe for concurrent use. No error contains a value.
type Secrets struct {
	from string // the setting secrets.from
	aws  aws.Config
	now  func() time.Time

	mu    sync.Mutex
	known map[[2]string]*knownSecret // by tenant and name
}

type knownSecret struct {
	reading chan struct{} // full while it is read
	value   string
	readAt  time.Time // zero before the first read
}

// NewSecrets makes the secrets of the source that the setting secrets.from names. It reads none.
func NewSecrets(from string, c aws.Config, now func() time.Time) *Secrets {
	return &Secrets{from: from, aws: c, now: now, known: map[[2]string]*knownSecret{}}
}

// Secret returns the value of a tenant's secret; CodeNotFound if there is no usable one. Concurrent
// calls read it once. A file is read each time, because its user edits it.
func (s *Secrets) Secret(ctx context.Context, tenant, name string) (string, error) {
	if strings.HasPrefix(s.from, "file:") {
		return s.read(ctx, tenant, name)
	}
	k := s.entry([2]string{tenant, name})
	select {
	case k.reading <- struct{}{}:
		defer func() { <-k.reading }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if !k.readAt.IsZero() && s.now().Sub(k.readAt) < secretLife {
		return k.value, nil
	}
	k.value, k.readAt = "", time.Time{}
	value, err := s.read(ctx, tenant, name)
	if err != nil {
		return "", err
	}
	k.value, k.readAt = value, s.now()
	return value, nil
}

func (s *Secrets) entry(key [2]string) *knownSecret {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key] == nil {
		if len(s.known) >= maxKnownSecrets {
			clear(s.known)
		}
		s.known[key] = &knownSecret{reading: make(chan struct{}, 1)}
	}
	return s.known[key]
}

// Exists reports whether a tenant has a secret. In a service of AWS it needs only the right for that
// and does not read the value. In a file it does, and the error is CodeInvalid if steps refuse it.
func (s *Secrets) Exists(ctx context.Context, tenant, name string) (bool, error) {
	var err error
	switch where, prefix, _ := strings.Cut(s.from, ":"); where {
	case "file":
		var value string
		if value, err = s.read(ctx, tenant, name); err != nil {
			break
		}
		if refused := workflow.CheckSecret(name, value); refused != nil {
			return false, refused
		}
	case "secretsmanager":
		var out struct{ DeletedDate json.RawMessage }
		err = s.call(ctx, secretsManager, "DescribeSecret", map[string]any{"SecretId": prefix + tenant + "/" + name}, name, &out)
		if err == nil && len(out.DeletedDate) > 0 && string(out.DeletedDate) != "null" {
			return false, nil
		}
	case "ssm": // the only action on one parameter that does not show its value
		var out struct{}
		err = s.call(ctx, parameterStore, "ListTagsForResource", map[string]any{"ResourceType": "Parameter", "ResourceId": prefix + tenant + "/" + name}, name, &out)
	default:
		return false, nil
	}
	if workflow.Is(err, workflow.CodeNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (s *Secrets) read(ctx context.Context, tenant, name string) (string, error) {
	switch where, prefix, _ := strings.Cut(s.from, ":"); where {
	case "file":
		return readSecretFile(prefix, name)
	case "secretsmanager":
		var out struct{ SecretString *string }
		if err := s.call(ctx, secretsManager, "GetSecretValue", map[string]any{"SecretId": prefix + tenant + "/" + name}, name, &out); err != nil {
			return "", err
		}
		if out.SecretString == nil {
			return "", secretNotFound(name, "it has bytes, and no text")
		}
		return *out.SecretString, nil
	case "ssm":
		var out struct{ Parameter struct{ Value string } }
		err := s.call(ctx, parameterStore, "GetParameter", map[string]any{"Name": prefix + tenant + "/" + name, "WithDecryption": true}, name, &out)
		return out.Parameter.Value, err
	}
	return "", secretNotFound(name, "this installation has no secrets: set secrets.from")
}

func secretNotFound(name, why string) error {
	return workflow.Errorf(workflow.CodeNotFound, "there is no secret %q: %s", name, why)
}

// readSecretFile reads one secret from a file.
func readSecretFile(path, name string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", errors.New("the file of secrets.from cannot be read")
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimPrefix(raw, []byte("\ufeff")), &all) != nil {
		return "", errors.New("the file of secrets.from is not an object of texts by name")
	}
	var value string
	switch found, ok := all[name]; {
	case !ok:
		return "", secretNotFound(name, "the file of secrets.from has none of this name")
	case json.Unmarshal(found, &value) != nil:
		return "", secretNotFound(name, "its value in the file of secrets.from is not a text")
	}
	return value, nil
}

// missingSecret are the errors by which the services say that there is no such secret, or that its
// name cannot be a secret's name.
var missingSecret = []string{"ResourceNotFoundException", "ParameterNotFound", "InvalidResourceId", "ValidationException", "InvalidRequestException"}

// call calls a service, and once more if it does not answer or fails. name is for the error.
func (s *Secrets) call(ctx context.Context, service awsService, action string, in map[string]any, name string, out any) error {
	var answer []byte
	var status int
	var err error
	for range 2 {
		if answer, status, err = service.call(ctx, s.aws, action, in); err == nil && status < http.StatusInternalServerError {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%s does not answer", service.name)
	}
	if status == http.StatusOK {
		if json.Unmarshal(answer, out) != nil {
			return fmt.Errorf("%s gives no answer that can be read", service.name)
		}
		return nil
	}
	var problem struct {
		Type string `json:"__type"`
	}
	_ = json.Unmarshal(answer, &problem) // without a type, the status decides
	kind := problem.Type[strings.LastIndexByte(problem.Type, '#')+1:]
	for _, missing := range missingSecret {
		if kind == missing {
			return secretNotFound(name, service.name+" says "+kind)
		}
	}
	return fmt.Errorf("%s answers %d %s", service.name, status, kind)
}
