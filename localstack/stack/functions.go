package stack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lockstep-run/lockstep/localstack/embedded/lambdahost"
	"github.com/lockstep-run/lockstep/shared/topology"
)

// concurrency is the most processes of each function on one machine. A worker that
// polls over HTTP occupies a process of the API function while it waits.
var concurrency = map[string]int{
	topology.FunctionAPI: 32, topology.FunctionLifecycle: 4,
	topology.FunctionObserver: 2, topology.FunctionSweeper: 1, topology.FunctionWorker: 4,
}

// deploy starts the Lambda host with the functions, their queue mappings and the
// schedule, as package infra declares them.
func (s *Stack) deploy() error {
	s.host = lambdahost.New(lambdahost.Options{Log: s.log, DrainTimeout: drainTimeout})
	for _, name := range topology.Functions {
		fn, err := s.host.Deploy(lambdahost.Function{
			Name:                   name,
			Binary:                 filepath.Join(s.options.BinDir, "functions", name, "bootstrap"),
			Env:                    append(s.functionEnv(), topology.EnvFunction+"="+name),
			Timeout:                time.Duration(topology.FunctionTimeoutSeconds[name]) * time.Second,
			MemoryMB:               topology.FunctionMemoryMB,
			MaxConcurrency:         concurrency[name],
			ProvisionedConcurrency: 1,
		})
		if err != nil {
			return fmt.Errorf("%w: run make build", err)
		}
		s.funcs[name] = fn
	}
	for _, m := range []struct{ url, function string }{
		{s.stores.lifecycleURL, topology.FunctionLifecycle}, {s.stores.eventsURL, topology.FunctionObserver}, {s.stores.hooksOutURL, topology.FunctionObserver}, {s.stores.hooksInURL, topology.FunctionObserver},
	} {
		err := s.host.AddMapping(lambdahost.Mapping{QueueURL: m.url, Client: s.stores.sqs, Function: s.funcs[m.function], ReportBatchItemFailures: true})
		if err != nil {
			return err
		}
	}
	for _, url := range s.stores.jobsURLs {
		if s.options.NoWorker {
			break
		}
		err := s.host.AddMapping(lambdahost.Mapping{QueueURL: url, Client: s.stores.sqs, Function: s.funcs[topology.FunctionWorker], ReportBatchItemFailures: true})
		if err != nil {
			return err
		}
	}
	return s.host.AddSchedule(s.config.SweepInterval, s.funcs[topology.FunctionSweeper], func(now time.Time) []byte {
		return s.host.ScheduledEvent("lockstep-sweeper", now)
	})
}

// functionEnv returns the environment of every function: the endpoints, the configuration, and the
// setting that headers carry the identity, which only a local stack may use.
func (s *Stack) functionEnv() []string {
	env := append(s.endpointEnv(),
		topology.EnvTrustHeaders+"=true",
		topology.EnvURL+"="+s.url,
	)
	if s.tokenKeys != "" {
		env = append(env, topology.EnvTokenKeys+"=file:"+s.tokenKeys)
	}
	if s.config.Token.Address == "" {
		env = append(env, topology.EnvTokenAddress+"="+s.url)
	}
	for _, kv := range os.Environ() {
		if inherited := strings.HasPrefix(kv, "LOCKSTEP_") || strings.HasPrefix(kv, "OTEL_"); inherited && !strings.HasPrefix(kv, topology.EnvURL+"=") {
			env = append(env, kv)
		}
	}
	return env
}

// endpointEnv returns the variables that name the tables, the queues and the configuration file.
func (s *Stack) endpointEnv() []string {
	env := []string{
		"AWS_REGION=us-east-1", "AWS_ACCESS_KEY_ID=local", "AWS_SECRET_ACCESS_KEY=local",
		"AWS_ENDPOINT_URL_DYNAMODB=" + s.stores.dynamodbURL,
		"AWS_ENDPOINT_URL_SQS=" + s.stores.sqsURL,
		topology.EnvQueueLifecycle + "=" + s.stores.lifecycleURL,
		topology.EnvQueueEvents + "=" + s.stores.eventsURL,
		topology.EnvQueueHooksOut + "=" + s.stores.hooksOutURL,
		topology.EnvQueueHooksIn + "=" + s.stores.hooksInURL,
		topology.EnvQueueJobsPrefix + "=" + namePrefix + topology.QueueJobsPrefix,
	}
	for role, key := range topology.TableEnv {
		env = append(env, key+"="+namePrefix+role)
	}
	if s.sealedKey != "" {
		env = append(env, topology.EnvSealedKey+"=file:"+s.sealedKey)
	}
	if s.options.SecretsFile != "" {
		if path, err := filepath.Abs(s.options.SecretsFile); err == nil {
			env = append(env, topology.EnvSecretsFrom+"=file:"+path)
		}
	}
	if s.options.ConfigFile != "" {
		if path, err := filepath.Abs(s.options.ConfigFile); err == nil {
			env = append(env, topology.EnvConfig+"="+path)
		}
	}
	return env
}

// workerEnv returns the environment of a worker program: the endpoints, the configuration of the
// functions, the URL of the service, and the function whose rights it has.
func (s *Stack) workerEnv() []string {
	return append(s.endpointEnv(), topology.EnvURL+"="+s.url, topology.EnvFunction+"="+topology.FunctionWorker)
}

// Processes lists the process ids of a function, whose processor time can be measured.
func (s *Stack) Processes(function string) []int { return s.funcs[function].Processes() }

// Counts are the counters of a function.
func (s *Stack) Counts(function string) lambdahost.Counts { return s.funcs[function].Counts() }
