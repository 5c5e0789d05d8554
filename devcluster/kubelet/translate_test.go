package kubelet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestTranslate(t *testing.T) {
	m := newMounts([]corev1.VolumeMount{
		{Name: "data", MountPath: "/data"},
		{Name: "deep", MountPath: "/data/deep/"},
		{Name: "sub", MountPath: "/sub", SubPath: "a/b"},
		{Name: "root", MountPath: "/"},
		{Name: "unknown", MountPath: "/unknown"},
	}, map[string]string{"data": "/host/1", "deep": "/host/2", "sub": "/host/3", "root": "/host/4"})
	cases := map[string]struct{ text, want string }{
		"the mount itself":                    {"/data", "/host/1"},
		"a file below it":                     {"/data/file", "/host/1/file"},
		"a trailing slash":                    {"/data/", "/host/1/"},
		"the longer mount wins":               {"/data/deep/file", "/host/2/file"},
		"a longer name is another path":       {"/database", "/database"},
		"a dot makes another name":            {"/data.old", "/data.old"},
		"below another directory":             {"/mnt/data", "/mnt/data"},
		"a relative path":                     {"data/x ./data", "data/x ./data"},
		"after an equals sign":                {"--dir=/data/x", "--dir=/host/1/x"},
		"in a list with colons":               {"/bin:/data/bin:/sub", "/bin:/host/1/bin:/host/3/a/b"},
		"in shell, quoted and with operators": {`cat "/data/a">/sub/b;ls /data`, `cat "/host/1/a">/host/3/a/b/b;ls /host/1`},
		"in a URL":                            {"unix:///data/socket", "unix:///data/socket"},
		"in a URL of one slash":               {"unix:/data/socket", "unix:/host/1/socket"},
		"the root is never replaced":          {"/ /bin/sh", "/ /bin/sh"},
		"a volume that has no directory":      {"/unknown/x", "/unknown/x"},
		"nothing":                             {"", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, m.translate(tc.text)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPortArgument(t *testing.T) {
	type result struct {
		Before string
		Port   int32
		OK     bool
	}
	cases := map[string]struct {
		argument string
		want     result
	}{
		"all addresses":              {"--health-address=:8086", result{"--health-address=", 8086, true}},
		"all addresses, spelled out": {"--health-address=0.0.0.0:8086", result{"--health-address=", 8086, true}},
		"version 6":                  {"[::]:8086", result{"", 8086, true}},
		"the address alone":          {":8086", result{"", 8086, true}},
		"a port of nobody":           {"--address=:8087", result{}},
		"another host":               {"--upstream=example.com:8086", result{"--upstream=example.com", 8086, false}},
		"a name that ends like one":  {"mylocalhost:8086", result{"mylocalhost", 8086, false}},
		"no colon":                   {"8086", result{}},
		"no number":                  {"a:b", result{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got result
			got.Before, got.Port, got.OK = portArgument(tc.argument, []corev1.ContainerPort{{ContainerPort: 8086}})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
