// Command fleet-devices serves the simulated devices of package simulator.
//
//	fleet-devices --port 4040 --inventory examples/fleet/inventory.jsonl
//	fleet-devices --port 0 --devices 1000 --initial-version 1.0.0
//	fleet-devices --devices 1000 --print-inventory > inventory.jsonl
//
// It prints one line "ready http://127.0.0.1:PORT" on standard output when it
// takes requests, and ends with exit code 0 on Ctrl-C or SIGTERM. Exit code 1
// is a failure, 2 a wrong use.
package main
