package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/lockstep-run/lockstep/shared/topology"
)

// template is the part of a CloudFormation template that has policies.
type template struct {
	name      string
	Resources map[string]resource
	Outputs   map[string]struct {
		Value  any
		Export struct{ Name string }
	}

	exports map[string]any // of all templates
}

type resource struct {
	Type       string
	Properties map[string]any
}

func readTemplate(file string) (*template, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	t := &template{name: file}
	return t, json.Unmarshal(text, t)
}

// physical is where the name of a resource is, and the ARN that it gives.
var physical = map[string]struct{ property, arn string }{
	"AWS::DynamoDB::Table":  {"TableName", "dynamodb:" + region + ":" + account + ":table/"},
	"AWS::SQS::Queue":       {"QueueName", "sqs:" + region + ":" + account + ":"},
	"AWS::Lambda::Function": {"FunctionName", "lambda:" + region + ":" + account + ":function:"},
	"AWS::Logs::LogGroup":   {"LogGroupName", "logs:" + region + ":" + account + ":log-group:"},
}

// value is a value of the template as CloudFormation resolves it. What no policy here refers to
// becomes a text that names nothing.
func (t *template) value(v any) any {
	switch v := v.(type) {
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = t.value(v[i])
		}
		return all
	case map[string]any:
		if of, ok := v["Ref"].(string); ok {
			return t.ref(of)
		}
		if of, ok := v["Fn::ImportValue"].(string); ok {
			return t.exports[of]
		}
		if of, ok := v["Fn::GetAtt"].([]any); ok {
			id := fmt.Sprint(of[0])
			if kind, known := physical[t.Resources[id].Type]; known && of[1] == "Arn" {
				return "arn:aws:" + kind.arn + t.ref(id)
			}
			return fmt.Sprintf("%s.%s", id, of[1])
		}
		if of, ok := v["Fn::Join"].([]any); ok {
			var parts []string
			for _, part := range of[1].([]any) {
				parts = append(parts, fmt.Sprint(t.value(part)))
			}
			return strings.Join(parts, fmt.Sprint(of[0]))
		}
		all := map[string]any{}
		for key := range v {
			all[key] = t.value(v[key])
		}
		return all
	}
	return v
}

func (t *template) ref(id string) string {
	switch id {
	case "AWS::Partition":
		return "aws"
	case "AWS::Region":
		return region
	case "AWS::AccountId":
		return account
	}
	kind, known := physical[t.Resources[id].Type]
	if name, ok := t.Resources[id].Properties[kind.property]; known && ok {
		return fmt.Sprint(t.value(name))
	}
	return id
}

// policiesOf are the policies of a role.
func (t *template) policiesOf(role string) []any {
	var all []any
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		p := t.Resources[id].Properties
		roles, _ := t.value(p["Roles"]).([]any)
		if t.Resources[id].Type == "AWS::IAM::Policy" && slices.Contains(roles, any(role)) {
			all = append(all, t.value(p["PolicyDocument"]))
		}
	}
	return all
}

// addChecks adds what the roles of the functions may do with the tables of their engine, and returns how
// many there are.
func (t *template) addChecks(c *checks) (roles int, err error) {
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		p := t.Resources[id].Properties
		switch t.Resources[id].Type {
		case "AWS::DynamoDB::Table":
			policy := t.value(p["ResourcePolicy"]).(map[string]any)["PolicyDocument"]
			arn := fmt.Sprint(t.value(map[string]any{"Fn::GetAtt": []any{id, "Arn"}}))
			c.ofResources[arn] = policy
		case "AWS::SQS::QueuePolicy":
			for _, queue := range p["Queues"].([]any) {
				arn := fmt.Sprint(t.value(map[string]any{"Fn::GetAtt": []any{queue.(map[string]any)["Ref"], "Arn"}}))
				c.ofResources[arn] = t.value(p["PolicyDocument"])
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		f := t.Resources[id]
		if f.Type != "AWS::Lambda::Function" {
			continue
		}
		environment, _ := t.value(f.Properties["Environment"]).(map[string]any)
		variables, _ := environment["Variables"].(map[string]any)
		role, _ := t.value(f.Properties["Role"]).(string)
		policies := t.policiesOf(strings.TrimSuffix(role, ".Arn"))
		if len(policies) == 0 || variables[topology.TableEnv[topology.TableJobs]] == nil {
			return 0, fmt.Errorf("the function %s has no policies or no tables", id)
		}
		roles++
		for _, table := range topology.Tables {
			name, known := variables[topology.TableEnv[table]]
			if !known { // one that is not told of a table may do nothing with it either
				continue
			}
			c.addTable(t.name+" "+id, functionOf(id), policies, table, "arn:aws:dynamodb:"+region+":"+account+":table/"+fmt.Sprint(name))
		}
		if queue := t.queueARN(variables[topology.EnvQueueLifecycle]); queue != "" {
			c.expect(t.name+" "+id, allowed, policies, "sqs:SendMessage", queue, nil)
			c.expect(t.name+" "+id, unstated, policies, "sqs:PurgeQueue", queue, nil)
			c.expect(t.name+" "+id, denied, policies, "sqs:SendMessage", queue, map[string]string{"aws:SecureTransport": "false"})
		}
		if f.Properties["VpcConfig"] != nil {
			interfaces := "arn:aws:ec2:" + region + ":" + account + ":network-interface/*"
			c.expect(t.name+" "+id, allowed, policies, "ec2:CreateNetworkInterface", interfaces, nil)
			arn := "arn:aws:" + physical[f.Type].arn + t.ref(id)
			c.expect(t.name+" "+id, denied, policies, "ec2:CreateNetworkInterface", interfaces, map[string]string{"lambda:SourceFunctionArn": arn})
		}
	}
	return roles, nil
}

// functionOf is the function of a logical id. What runs in a pool of a user has the rights of a worker.
func functionOf(id string) string {
	for _, function := range topology.Functions {
		if strings.Contains(strings.ToLower(id), function+"function") {
			return function
		}
	}
	return topology.FunctionWorker
}

// tableActions are what can be done with a table and its content, and with an index.
var (
	tableActions = []string{topology.GetItem, topology.BatchGetItem, topology.Query, topology.PutItem, topology.UpdateItem,
		"Scan", "DeleteItem", "BatchWriteItem", "ConditionCheckItem", "UpdateTable", "DeleteTable", "UpdateTimeToLive", "PutResourcePolicy"}
	indexActions = []string{topology.Query, "Scan"}
)

func (c *checks) addTable(of, function string, policies []any, table, arn string) {
	may := map[string]bool{}
	for _, r := range topology.RightsFor(function, table) {
		for _, action := range r.Actions {
			may[r.Index+" "+action] = true
		}
	}
	add := func(index, resource string, actions []string) {
		for _, action := range actions {
			want := unstated
			if may[index+" "+action] {
				want = allowed
				if c.ofResources[resource] != nil { // not a table that is there already, and no index: AWS takes the policy of its table
					c.expect(of, denied, policies, "dynamodb:"+action, resource, map[string]string{"aws:SecureTransport": "false"})
				}
			}
			c.expect(of, want, policies, "dynamodb:"+action, resource, nil)
		}
	}
	add("", arn, tableActions)
	for _, index := range topology.Indexes[table] {
		add(index.Name, arn+"/index/"+index.Name, indexActions)
	}
}

// queueARN is the ARN of a queue by the variable that has its URL, which refers to it.
func (t *template) queueARN(url any) string {
	for id, r := range t.Resources {
		if r.Type == "AWS::SQS::Queue" && t.ref(id) == url {
			return "arn:aws:" + physical[r.Type].arn + t.ref(id)
		}
	}
	return ""
}
