{
  map(name, data):: {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'chart-' + name },
    data: data,
  },
}
