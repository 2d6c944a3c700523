package chaos

// definitions are what is run. Every one ends with a step that fails for the
// devices that its starter has chosen; all but the last two can be undone then.
var definitions = []string{
	// By the worker that polls.
	`
package: chaos
name: upgrade
version: 1.0.0
seedEntity: device
config: {maxInFlight: 4}
steps:
  - {label: look, functionBlock: fleet/show_version:1, runOn: device}
  - {label: set, functionBlock: fleet/upgrade:1, runOn: device, parameters: {target: "${parameters.target}", former: "${look.result.version}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
  - {label: verify, functionBlock: fleet/verify:1, runOn: device, parameters: {target: "${parameters.target}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: report, functionBlock: fleet/report:1, runOn: global, parameters: {target: "${parameters.target}", upgraded: "${size(set.results)}"}}
`,
	// By the worker function, with what must not be done twice but can be undone.
	`
package: chaos
name: mixed
version: 1.0.0
seedEntity: device
steps:
  - {label: look, functionBlock: chaos/read:1, runOn: device, retry: {maxRetries: 4, delay: 100ms}}
  - {label: first, functionBlock: chaos/bump:1, runOn: device}
  - {label: set, functionBlock: chaos/install:1, runOn: device, parameters: {target: "${parameters.target}", former: "${look.result.version}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
`,
	// Each device at its own pace.
	`
package: chaos
name: pipeline
version: 1.0.0
seedEntity: device
config: {executionStrategy: {parallel: true}}
steps:
  - {label: look, functionBlock: chaos/read:1, runOn: device, retry: {maxRetries: 4, delay: 100ms}}
  - {label: set, functionBlock: fleet/upgrade:1, runOn: device, parameters: {target: "${parameters.target}", former: "${look.result.version}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: bump, functionBlock: chaos/bump:1, runOn: device}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
`,
	// Through a run of its own, which takes the locks.
	`
package: chaos
name: parent
version: 1.0.0
parameters:
  type: object
  required: [devices]
  properties: {devices: {type: array, items: {type: string}}}
steps:
  - label: call
    workflowReference:
      workflow: chaos/mixed:1
      mode: dispatch
      executeOnParameters: {type: device, ids: "${parameters.devices}"}
    parameters: {target: "${parameters.target}", fail: "${parameters.fail}"}
`,
	// With what cannot be undone.
	`
package: chaos
name: once
version: 1.0.0
seedEntity: device
config: {maxInFlight: 2}
steps:
  - {label: look, functionBlock: chaos/read:1, runOn: device, retry: {maxRetries: 4, delay: 100ms}}
  - {label: set, functionBlock: chaos/install:1, runOn: device, parameters: {target: "${parameters.target}", former: "${look.result.version}"}, retry: {maxRetries: 4, delay: 100ms}}
  - {label: touch, functionBlock: chaos/touch:1, runOn: device}
  - {label: check, functionBlock: chaos/check:1, runOn: device, parameters: {fail: "${parameters.fail}"}}
`,
}
