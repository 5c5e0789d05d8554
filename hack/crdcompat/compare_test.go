package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// base is a definition in which each case changes one thing.
const base = `
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget, shortNames: [wid], categories: [all]}
  versions:
  - name: v1
    served: true
    storage: true
    selectableFields: [{jsonPath: .spec.node}]
    additionalPrinterColumns: [{name: Node, type: string, jsonPath: .spec.node}]
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [node]
            x-kubernetes-validations: [{rule: self.node != ''}]
            properties:
              node: {type: string, maxLength: 10, minLength: 1, pattern: '^a'}
              mode: {type: string, enum: [A, B], default: A}
              size: {type: integer, format: int32, minimum: 1, maximum: 9, nullable: true}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              list: {type: array, maxItems: 3, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, properties: {name: {type: string}}}}
              map: {type: object, maxProperties: 3, additionalProperties: {type: string, maxLength: 5}}
              port: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              plain: {type: string}
`

func TestBreaks(t *testing.T) {
	cases := map[string]struct {
		// old is replaced by now, in base.
		old, now string
		want     []string
	}{
		"nothing changed":                  {},
		"a description changed":            {old: "plain: {type: string}", now: "plain: {type: string, description: hello}"},
		"an optional field came":           {old: "plain: {type: string}", now: "plain: {type: string}\n              new: {type: string, maxLength: 3}"},
		"a value came":                     {old: "[A, B]", now: "[A, B, C]"},
		"a bound was loosened":             {old: "maxLength: 10", now: "maxLength: 11"},
		"a bound went":                     {old: "minimum: 1, maximum: 9, ", now: ""},
		"a pattern went":                   {old: ", pattern: '^a'", now: ""},
		"a rule went":                      {old: "x-kubernetes-validations: [{rule: self.node != ''}]", now: "description: x"},
		"a field is required no more":      {old: "required: [node]", now: "required: []"},
		"a field became required, default": {old: "required: [node]", now: "required: [node, mode]"},
		"a column came":                    {old: "[{name: Node,", now: "[{name: Free, type: string, jsonPath: .spec.free}, {name: Node,"},
		"a version came":                   {old: "  - name: v1\n", now: "  - {name: v2, served: true, storage: false}\n  - name: v1\n"},
		"a least length of nothing came":   {old: "plain: {type: string}", now: "plain: {type: string, minLength: 0}"},

		"the scope changed":           {old: "scope: Namespaced", now: "scope: Cluster", want: []string{"the scope was Namespaced and is Cluster"}},
		"the kind changed":            {old: "kind: Widget,", now: "kind: Gadget,", want: []string{"the kind was Widget and is Gadget"}},
		"a short name went":           {old: "shortNames: [wid]", now: "shortNames: []", want: []string{"short name wid is gone"}},
		"a category went":             {old: "categories: [all]", now: "categories: []", want: []string{"category all is gone"}},
		"a version went":              {old: "- name: v1", now: "- name: v2", want: []string{"version v1 is gone"}},
		"a version is served no more": {old: "served: true", now: "served: false", want: []string{"version v1 is served no more"}},
		"a field is selectable no more": {old: "selectableFields: [{jsonPath: .spec.node}]", now: "selectableFields: []",
			want: []string{"v1: .spec.node can be selected no more"}},
		"a column went": {old: "[{name: Node, type: string, jsonPath: .spec.node}]", now: "[]", want: []string{"v1: column Node is gone"}},
		"a column changed": {old: "name: Node, type: string", now: "name: Node, type: integer",
			want: []string{"v1: column Node was .spec.node of type string and is .spec.node of type integer"}},
		"the status is none any more": {old: "status: {}, ", now: "", want: []string{"v1: subresource status is gone"}},
		"the scale changed":           {old: ".spec.replicas", now: ".spec.size", want: []string{"v1: subresource scale is gone or changed"}},

		"a field went":            {old: "plain: {type: string}", now: "other: {type: string}", want: []string{"v1: .spec.plain: the field is gone"}},
		"a field was retyped":     {old: "plain: {type: string}", now: "plain: {type: integer}", want: []string{`v1: .spec.plain: the type was "string" and is "integer"`}},
		"the format changed":      {old: "format: int32", now: "format: int64", want: []string{`v1: .spec.size: the format was "int32" and is "int64"`}},
		"a field became required": {old: "required: [node]", now: "required: [node, plain]", want: []string{"v1: .spec.plain: the field became required"}},
		"a new field is required": {old: "required: [node]\n", now: "required: [node, x]\n", want: []string{"v1: .spec.x: the field became required"}},
		"a value went":            {old: "[A, B]", now: "[A]", want: []string{`v1: .spec.mode: value "B" is gone`}},
		"values came up":          {old: "plain: {type: string}", now: "plain: {type: string, enum: [A]}", want: []string{`v1: .spec.plain: only the values ["A"] are left`}},
		"the default changed":     {old: "default: A", now: "default: B", want: []string{`v1: .spec.mode: the default was "A" and is "B"`}},
		"the default went":        {old: ", default: A", now: "", want: []string{`v1: .spec.mode: the default was "A" and is null`}},
		"the text is shorter":     {old: "maxLength: 10", now: "maxLength: 9", want: []string{"v1: .spec.node: maxLength was 10 and is 9"}},
		"the text is longer":      {old: "minLength: 1", now: "minLength: 2", want: []string{"v1: .spec.node: minLength was 1 and is 2"}},
		"a bound came":            {old: "plain: {type: string}", now: "plain: {type: string, maxLength: 3}", want: []string{"v1: .spec.plain: maxLength became 3"}},
		"the pattern changed":     {old: "'^a'", now: "'^b'", want: []string{`v1: .spec.node: the pattern was "^a" and is "^b"`}},
		"the number is smaller":   {old: "maximum: 9", now: "maximum: 8", want: []string{"v1: .spec.size: maximum was 9 and is 8"}},
		"the number is larger":    {old: "minimum: 1", now: "minimum: 2", want: []string{"v1: .spec.size: minimum was 1 and is 2"}},
		"the bound is left out":   {old: "maximum: 9", now: "maximum: 9, exclusiveMaximum: true", want: []string{"v1: .spec.size: the bound itself is refused"}},
		"null is refused":         {old: ", nullable: true", now: "", want: []string{"v1: .spec.size: null is refused"}},
		"unknown fields go":       {old: ", x-kubernetes-preserve-unknown-fields: true", now: "", want: []string{"v1: .spec.free: unknown fields are dropped"}},
		"fewer items":             {old: "maxItems: 3", now: "maxItems: 2", want: []string{"v1: .spec.list: maxItems was 3 and is 2"}},
		"another list":            {old: "list-map-keys: [name]", now: "list-map-keys: [id]", want: []string{`v1: .spec.list: x-kubernetes-list-map-keys was ["name"] and is ["id"]`}},
		"in the items":            {old: "{name: {type: string}}", now: "{name: {type: boolean}}", want: []string{`v1: .spec.list[*].name: the type was "string" and is "boolean"`}},
		"fewer entries":           {old: "maxProperties: 3", now: "maxProperties: 2", want: []string{"v1: .spec.map: maxProperties was 3 and is 2"}},
		"in the values of a map":  {old: "maxLength: 5", now: "maxLength: 4", want: []string{"v1: .spec.map{*}: maxLength was 5 and is 4"}},
		"a combination changed":   {old: "[{type: integer}, {type: string}]", now: "[{type: integer}]", want: []string{"v1: .spec.port: allOf, anyOf, oneOf or not has changed"}},
		"a rule came":             {old: "[{rule: self.node != ''}]", now: "[{rule: self.node != ''}, {rule: self.size > 3}]", want: []string{"v1: .spec: a rule was added: self.size > 3"}},
		"a rule reads otherwise":  {old: "self.node != ''", now: "self.node != 'x'", want: []string{"v1: .spec: a rule was added: self.node != 'x'"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.old != "" && strings.Count(base, tc.old) == 0 {
				t.Fatalf("the case changes nothing: %s", tc.old)
			}
			got := compareAll([]*definition{decode(t, base)}, []*definition{decode(t, strings.Replace(base, tc.old, tc.now, 1))})
			var want []string
			for _, line := range tc.want {
				want = append(want, "widgets.example.com: "+line)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("breaks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestADefinitionThatIsGoneBreaks(t *testing.T) {
	want := []string{"widgets.example.com: the definition is gone"}
	if diff := cmp.Diff(want, compareAll([]*definition{decode(t, base)}, nil)); diff != "" {
		t.Errorf("breaks (-want +got):\n%s", diff)
	}
}

func TestJudge(t *testing.T) {
	cases := map[string]struct {
		breaks   []string
		accepted string
		want     []string
	}{
		"nothing":               {accepted: "# a comment\n\n"},
		"a break":               {breaks: []string{"a"}, want: []string{"a"}},
		"an accepted break":     {breaks: []string{"a # b"}, accepted: "a # b # docs/decisions/0001-x.md\n"},
		"without a decision":    {breaks: []string{"a"}, accepted: "a\n", want: []string{"accepted without a decision: a", "a"}},
		"no such decision":      {breaks: []string{"a"}, accepted: "a # docs/decisions/0002-y.md", want: []string{`accepted by "docs/decisions/0002-y.md", which is no decision: a`}},
		"another file":          {breaks: []string{"a"}, accepted: "a # README.md", want: []string{`accepted by "README.md", which is no decision: a`}},
		"many by one line":      {breaks: []string{"x.a: b", "y.a: b", "y.a: c"}, accepted: "…a: b # docs/decisions/0001-x.md", want: []string{"y.a: c"}},
		"a line that is no use": {accepted: "a # docs/decisions/0001-x.md", want: []string{"accepted, and no break: a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := judge(tc.breaks, tc.accepted, func(path string) bool { return path == "docs/decisions/0001-x.md" || path == "README.md" })
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDescriptionsAreDroppedAndFieldsOfThatNameKept(t *testing.T) {
	var got any
	const text = `{description: x, properties: {description: {type: string, description: w}, properties: {type: object, properties: {description: {description: z}}}}}`
	if err := yaml.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"properties": map[string]any{
		"description": map[string]any{"type": "string"},
		"properties":  map[string]any{"type": "object", "properties": map[string]any{"description": map[string]any{}}},
	}}
	if diff := cmp.Diff(any(want), withoutDescriptions(got, false)); diff != "" {
		t.Errorf("without descriptions (-want +got):\n%s", diff)
	}
}

func decode(t *testing.T, text string) *definition {
	t.Helper()
	d := &definition{}
	if err := yaml.Unmarshal([]byte(text), d); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return d
}
