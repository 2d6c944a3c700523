// Package pool serves a worker: as a Lambda function behind its pool's queue
// where the process runs on Lambda, otherwise as a process that polls the queue
// until it is told to stop. Either way it finds tables and queues in the
// environment, registers its blocks if the environment says where the service
// is, and takes its thresholds from the configuration.
package workerhost
