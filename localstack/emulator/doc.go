// Package host brings up LocalStack 4.14.0, an emulator of AWS, so that the real
// stack can be deployed and run without an account: as a program of this machine,
// installed from the packages of PyPI and npm alone, or in Docker.
//
// A tour:
//
//   - host.go: [Start], [Emulator] and how it ends.
//   - install.go: which Python, and what is installed once.
//   - settings.go: LocalStack's environment, and the one for whoever uses it.
//   - docker.go: the same in a container.
//   - door.go: [Emulator.Door] makes a function URL callable, whose host name
//     nobody resolves.
//   - emulator/: the parts in Python that LocalStack lacks to run functions as
//     processes, invoke them side by side, and use dynoxide for DynamoDB.
//   - requirements.in, requirements.lock: what is installed, with its hashes.
//
// README.md says what works there and what is silently ignored.
package emulator
