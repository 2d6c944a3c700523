package main

import (
	"encoding/json"
	"fmt"
	"regexp"
)

var policyRE = regexp.MustCompile("(?s)\n```json\n(\\{\"(?:Version|Effect)\".*?\n?\\})\n```\n")

// addPage adds what docs/deploying.md says of its policies: of callers, of those who may only read, and
// of who deploys.
func (c *checks) addPage(page string) error {
	var policies []any
	for _, found := range policyRE.FindAllStringSubmatch(page, -1) {
		var policy map[string]any
		if err := json.Unmarshal([]byte(found[1]), &policy); err != nil {
			return err
		}
		if policy["Version"] == nil { // a statement
			policy["Resource"] = regexp.MustCompile(`<api id>`).ReplaceAllString(fmt.Sprint(policy["Resource"]), "a1b2c3d4e5")
			policy = map[string]any{"Version": "2012-10-17", "Statement": []any{policy}}
		}
		policies = append(policies, policy)
	}
	if len(policies) != 3 {
		return fmt.Errorf("it has %d policies, want those of callers, readers and who deploys", len(policies))
	}
	api := "arn:aws:execute-api:" + region + ":" + account + ":a1b2c3d4e5/$default/"
	for i, who := range []string{"callers", "readers"} {
		start := allowed
		if who == "readers" {
			start = unstated
		}
		c.expect(who, allowed, policies[i:i+1], "execute-api:Invoke", api+"GET/workflow-execution/active", nil)
		c.expect(who, start, policies[i:i+1], "execute-api:Invoke", api+"POST/workflow-execution", nil)
		c.expect(who, start, policies[i:i+1], "execute-api:Invoke", api+"DELETE/subscriptions/x", nil)
	}
	for _, r := range []struct {
		want, action, resource string
		context                map[string]string
	}{
		{allowed, "dynamodb:CreateTable", "arn:aws:dynamodb:" + region + ":" + account + ":table/Lockstep-prod-x", nil},
		{allowed, "lambda:CreateFunction", "arn:aws:lambda:" + region + ":" + account + ":function:Lockstep-prod-x", nil},
		{allowed, "sqs:CreateQueue", "arn:aws:sqs:" + region + ":" + account + ":Lockstep-prod-x", nil},
		{unstated, "dynamodb:PutItem", "arn:aws:dynamodb:" + region + ":" + account + ":table/Lockstep-prod-x", nil},
		{unstated, "sqs:ReceiveMessage", "arn:aws:sqs:" + region + ":" + account + ":Lockstep-prod-x", nil},
		{allowed, "iam:CreateRole", role("Lockstep-prod-x"), map[string]string{"iam:PermissionsBoundary": boundary}},
		{unstated, "iam:CreateRole", role("Lockstep-prod-x"), nil},
		{unstated, "iam:CreateRole", role("Lockstep-prod-x"), map[string]string{"iam:PermissionsBoundary": boundary + "x"}},
		{unstated, "iam:CreateRole", role("Admin"), map[string]string{"iam:PermissionsBoundary": boundary}},
		{allowed, "iam:PutRolePolicy", role("Lockstep-prod-x"), map[string]string{"iam:PermissionsBoundary": boundary}},
		{unstated, "iam:PutRolePolicy", role("Lockstep-prod-x"), nil},
		{unstated, "iam:DeleteRolePermissionsBoundary", role("Lockstep-prod-x"), map[string]string{"iam:PermissionsBoundary": boundary}},
		{unstated, "iam:AttachRolePolicy", role("Lockstep-prod-x"), map[string]string{"iam:PermissionsBoundary": boundary}},
		{allowed, "iam:DeleteRole", role("Lockstep-prod-x"), nil},
		{allowed, "iam:GetRole", role("Lockstep-prod-x"), nil},
		{allowed, "iam:PassRole", role("Lockstep-prod-x"), map[string]string{"iam:PassedToService": "lambda.amazonaws.com"}},
		{unstated, "iam:PassRole", role("Lockstep-prod-x"), map[string]string{"iam:PassedToService": "ec2.amazonaws.com"}},
		{unstated, "iam:PassRole", role("Admin"), map[string]string{"iam:PassedToService": "lambda.amazonaws.com"}},
		{allowed, "s3:GetObject", "arn:aws:s3:::cdk-hnb659fds-assets/x.zip", nil},
		{unstated, "s3:GetObject", "arn:aws:s3:::private/x.zip", nil},
	} {
		c.expect("who deploys", r.want, policies[2:], r.action, r.resource, r.context)
	}
	return nil
}

const boundary = "arn:aws:iam::" + account + ":policy/limits-of-the-team"

func role(name string) string { return "arn:aws:iam::" + account + ":role/" + name }
