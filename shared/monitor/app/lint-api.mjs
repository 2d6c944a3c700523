// Lints the OpenAPI document as it is served, with the rules that Redocly recommends. What is left out is said here, with why.
import { createConfig, formatProblems, lint } from "@redocly/openapi-core";

const document = new URL("../../api/openapi/openapi.json", import.meta.url).pathname;
const config = await createConfig({
  extends: ["recommended"],
  rules: {
    // Each installation has its own address.
    "no-empty-servers": "off",
    "no-server-example.com": "off",
    // The gateway of an installation authenticates, by IAM or by a JWT; x-roles says who may call an operation.
    "security-defined": "off",
    // "id" is no id of an execution, so that /workflow-execution/id/{id} and /workflow-execution/{id}/cancel differ.
    "no-ambiguous-paths": "off",
    // The two pages refuse nothing; all other operations have a default answer, a problem.
    "operation-4xx-response": "off",
  },
});
const problems = await lint({ ref: document, config });
if (problems.length > 0) {
  formatProblems(problems, { format: "stylish", totals: { errors: problems.length, warnings: 0, ignored: 0 }, version: "1" });
  process.exitCode = 1;
}
