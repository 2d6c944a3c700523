// Package config is the configuration: one documented struct with its defaults
// in code, read from a YAML file and then from LOCKSTEP_* variables.
//
// Every threshold of the engine is a key, so that a test can run in seconds what
// takes an hour in production. Unknown keys are refused with their place. The
// table in docs/configuration.md is generated from the struct.
package config
