// Reads a list of simulations from the standard input, and writes for each what IAM decides:
// Allowed, ImplicitlyDenied, ExplicitlyDenied, or what is wrong with it.
import { runSimulation } from '@cloud-copilot/iam-simulate'

let text = ''
for await (const chunk of process.stdin) text += chunk
const decisions = []
for (const simulation of JSON.parse(text)) {
  const response = await runSimulation(simulation, {})
  decisions.push(response.resultType === 'error' ? JSON.stringify(response.errors) : response.overallResult)
}
console.log(JSON.stringify(decisions))
