package infra

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Network connects a worker to a VPC, so that it can reach private hosts. The worker then reaches
// DynamoDB, SQS and other AWS services only through endpoints or a NAT gateway of that VPC.
type Network struct {
	// Subnets and SecurityGroups are ids. Choose subnets in two or more zones.
	Subnets, SecurityGroups []string
}

var (
	subnetRE        = regexp.MustCompile(`^subnet-[0-9a-f]{8,17}$`)
	securityGroupRE = regexp.MustCompile(`^sg-[0-9a-f]{8,17}$`)
)

// Validate returns an error that names the first invalid field; nil means no network.
func (n *Network) Validate() error {
	if n == nil {
		return nil
	}
	if len(n.Subnets) == 0 || len(n.SecurityGroups) == 0 {
		return fmt.Errorf("network: want a subnet and a security group or more")
	}
	for _, id := range n.Subnets {
		if !subnetRE.MatchString(id) && !placeholderRE.MatchString(id) {
			return fmt.Errorf("network: %q is not the id of a subnet", id)
		}
	}
	for _, id := range n.SecurityGroups {
		if !securityGroupRE.MatchString(id) && !placeholderRE.MatchString(id) {
			return fmt.Errorf("network: %q is not the id of a security group", id)
		}
	}
	return nil
}

// networkActions are the actions that Lambda needs, with the role of a function, to connect it.
// Most of them have no resources, so they are allowed on all.
var networkActions = []string{
	"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
	"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses",
}

// allowNetwork lets Lambda connect the functions of a role.
func allowNetwork(role awsiam.IRole) {
	allow(role, "ConnectToNetwork", []string{"*"}, networkActions...)
}

// denyNetworkToCode denies these actions to the code of a function. Lambda calls them with the
// function's role, so the code could call them too, on every network interface in the account.
// Requests from the code, and only these, carry the function's ARN. The policy names the function,
// which depends on the policy of its role, so it must be a separate policy.
func denyNetworkToCode(scope constructs.Construct, id string, role awsiam.IRole, f awslambda.Function) {
	statement := awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("DenyNetworkToCode"), Effect: awsiam.Effect_DENY, Actions: jsii.Strings(networkActions...), Resources: jsii.Strings("*"),
		Conditions: &map[string]any{"ArnLike": map[string]any{"lambda:SourceFunctionArn": []string{*f.FunctionArn(), *f.FunctionArn() + ":*"}}},
	})
	awsiam.NewCfnPolicy(scope, jsii.String(id+"NetworkPolicy"), &awsiam.CfnPolicyProps{
		PolicyName: jsii.String("network"), Roles: &[]*string{role.RoleName()},
		PolicyDocument: awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &[]awsiam.PolicyStatement{statement}}),
	})
}

// connect connects a function.
func (n *Network) connect(f awslambda.Function) {
	f.Node().DefaultChild().(awslambda.CfnFunction).SetVpcConfig(&awslambda.CfnFunction_VpcConfigProperty{
		SubnetIds: jsii.Strings(n.Subnets...), SecurityGroupIds: jsii.Strings(n.SecurityGroups...),
	})
}

// Domain is a custom domain for the HTTP interface.
type Domain struct {
	// Name is the domain, such as lockstep.example.com. Point it to the output DomainTarget.
	Name string

	// CertificateARN is the ARN of its certificate in AWS Certificate Manager, in the region of
	// the engine.
	CertificateARN string
}

var (
	domainRE      = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`)
	certificateRE = regexp.MustCompile(`^arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/[0-9a-f-]+$`)
)

// Validate returns an error that names the first invalid field; nil means no domain.
func (d *Domain) Validate() error {
	if d == nil {
		return nil
	}
	if !domainRE.MatchString(d.Name) || len(d.Name) > 253 {
		return fmt.Errorf("domain %q: want a name such as lockstep.example.com, in lower case", d.Name)
	}
	if !certificateRE.MatchString(d.CertificateARN) && !placeholderRE.MatchString(d.CertificateARN) {
		return fmt.Errorf("certificate %q: want the ARN of a certificate in AWS Certificate Manager", d.CertificateARN)
	}
	return nil
}

// addDomain gives the API the domain and returns its URL.
func (e *Engine) addDomain(api awsapigatewayv2.CfnApi, stage awsapigatewayv2.CfnStage) *string {
	domain := awsapigatewayv2.NewCfnDomainName(e.Construct, jsii.String("Domain"), &awsapigatewayv2.CfnDomainNameProps{
		DomainName: &e.props.Domain.Name,
		DomainNameConfigurations: []any{&awsapigatewayv2.CfnDomainName_DomainNameConfigurationProperty{
			CertificateArn: &e.props.Domain.CertificateARN, EndpointType: jsii.String("REGIONAL"), SecurityPolicy: jsii.String("TLS_1_2"),
		}},
	})
	mapping := awsapigatewayv2.NewCfnApiMapping(e.Construct, jsii.String("DomainMapping"), &awsapigatewayv2.CfnApiMappingProps{
		ApiId: api.Ref(), DomainName: domain.Ref(), Stage: stage.Ref(),
	})
	mapping.Node().AddDependency(domain)
	e.output("DomainTarget", "Where the DNS record of the domain points to", domain.AttrRegionalDomainName())
	return jsii.String("https://" + e.props.Domain.Name)
}

// boundaryARN returns the ARN of the permissions boundary.
func (e *Engine) boundaryARN() *string {
	if strings.HasPrefix(e.props.PermissionsBoundary, "arn:") {
		return &e.props.PermissionsBoundary
	}
	return awscdk.Stack_Of(e.Construct).FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("iam"), Region: jsii.String(""), Resource: jsii.String("policy"), ResourceName: &e.props.PermissionsBoundary,
	})
}

// applyBoundary applies the permissions boundary to every role of the engine, including those of
// pools that are added later.
func (e *Engine) applyBoundary() {
	if e.props.PermissionsBoundary != "" {
		policy := awsiam.ManagedPolicy_FromManagedPolicyArn(e.Construct, jsii.String("PermissionsBoundary"), e.boundaryARN())
		awsiam.PermissionsBoundary_Of(e.Construct).Apply(policy)
	}
}
